// The facts that `billing status` reads, the limits, and the result. --json prints a Status.
import type { ClockDifference } from '../../../daemon/clocks.ts';
import type { DaemonRow } from '../../../db/operating/daemons.ts';
import type { ChainStatus } from './chain.ts';
import type { QueueStatus } from './queues.ts';

export interface Limits {
  /** Maximum delay in seconds of a due payment, and maximum age of an open attempt. */
  maxPaymentDelay: number;
  /** Maximum delay in seconds of a due delivery. */
  maxDeliveryDelay: number;
  /** Minimum balance of the keeper wallet in SOL. */
  minSol: number;
  /** Maximum number of deliveries that finally failed in the last two days. */
  maxFailed: number;
}

/**
 * The parts of the status that can be unchecked. A part is unchecked when its configuration is
 * missing or its source does not respond.
 */
export type Checkable = 'chain' | 'keeper' | 'secrets';

/** The kinds of daemons. */
export const kinds = ['serve', 'keeper', 'dispatch'] as const;
export type Kind = (typeof kinds)[number];

/**
 * The values of --require. A kind of daemon means that such a daemon must run, a part of the status
 * that the part must be checked. `keeper` means both: a running keeper, and a check of its SOL.
 */
export const requirements = ['serve', 'keeper', 'dispatch', 'chain', 'secrets'] as const;
export type Requirement = (typeof requirements)[number];

export interface Status {
  /** True when `problems` is empty. */
  ok: boolean;
  /**
   * `past_limit` means that there are problems. `unchecked` means that there are no problems, but a
   * part could not be checked.
   */
  state: 'ok' | 'unchecked' | 'past_limit';
  /** The parts that could not be checked, each with the reason. */
  unchecked: Partial<Record<Checkable, string>>;
  /** One message for each value past its limit, and for each required part that was not checked. */
  problems: string[];
  at: Date;
  environment: string;
  /**
   * `fault` is the reason why Postgres did not respond. When `fault` is null, the other fields are
   * present.
   */
  database: Partial<QueueStatus['database']> & { address: string; fault: string | null };
  /** The comparison of the clocks of Postgres, this host and the chain. */
  clocks: ClockDifference;
  /**
   * `payments`, `deliveries`, `collection` and `sponsoring` are null when Postgres did not respond.
   */
  payments: QueueStatus['payments'] | null;
  deliveries: QueueStatus['deliveries'] | null;
  collection: QueueStatus['collection'] | null;
  sponsoring: QueueStatus['sponsoring'] | null;
  daemons: DaemonRow[];
  /** Whether there is work for each kind of daemon. Null when Postgres did not respond. */
  work: QueueStatus['work'] | null;
  /**
   * Number of webhook secrets that no key of ENCRYPTION_KEY decrypts. Null when ENCRYPTION_KEY is
   * not configured or Postgres did not respond.
   */
  undecipherableSecrets: number | null;
  /** Null when SOLANA_RPC_URL is not configured. */
  chain: ChainStatus | null;
  /**
   * Null when neither KEEPER_ADDRESS nor KEEPER_KEYPAIR is configured. `sol` is null when the chain
   * did not respond.
   */
  keeper: { address: string; sol: number | null } | null;
  errors: QueueStatus['errors'];
  /**
   * With --by endpoint: the endpoints that fail or have unfinished deliveries, most overdue first.
   */
  endpoints?: NonNullable<QueueStatus['endpoints']>;
}

/** The facts of a status before the comparison with the limits. */
export type Facts = Omit<Status, 'ok' | 'state' | 'problems' | 'unchecked'>;
