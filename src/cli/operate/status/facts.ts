// The facts that `billing status` reads, its limits, and its result. --json prints a Status.
import type { DaemonRow } from '../../../db/daemons.ts';
import type { ChainStatus } from './chain.ts';
import type { QueueStatus } from './queues.ts';

export interface Limits {
  /** Maximum age in seconds of a due payment or an open attempt. */
  maxPaymentDelay: number;
  /** Maximum age in seconds of a due delivery. */
  maxDeliveryDelay: number;
  /** Minimum balance of the keeper in SOL. */
  minSol: number;
}

/** A part that is not checked when its configuration is missing or its source does not respond. */
export type Checkable = 'chain' | 'keeper' | 'secrets';

export interface Status {
  /** No value is past its limit. */
  ok: boolean;
  /** `unchecked`: no value is past its limit, but a part could not be checked. */
  state: 'ok' | 'unchecked' | 'past_limit';
  /** The parts that could not be checked, and why. */
  unchecked: Partial<Record<Checkable, string>>;
  /** A message for each value past its limit. */
  problems: string[];
  at: Date;
  environment: string;
  /**
   * `fault`: why Postgres did not respond; null when it did, and the other fields are present then.
   */
  database: Partial<QueueStatus['database']> & { address: string; fault: string | null };
  /** Null when Postgres did not respond. */
  payments: QueueStatus['payments'] | null;
  deliveries: QueueStatus['deliveries'] | null;
  collection: QueueStatus['collection'] | null;
  daemons: DaemonRow[];
  /**
   * Webhook secrets that no key of ENCRYPTION_KEY decrypts; null when it is not configured or
   * Postgres did not respond.
   */
  undecipherableSecrets: number | null;
  /** null when SOLANA_RPC_URL is not configured. */
  chain: ChainStatus | null;
  /**
   * null when neither KEEPER_ADDRESS nor KEEPER_KEYPAIR is configured; `sol` is null when the chain
   * did not respond.
   */
  keeper: { address: string; sol: number | null } | null;
  errors: QueueStatus['errors'];
}

/** The facts, before they are compared with the limits. */
export type Facts = Omit<Status, 'ok' | 'state' | 'problems' | 'unchecked'>;
