import type { Keypair } from '../../chain/keypair.ts';
import type { AbsenceJudge } from '../../chain/rpc/absence.ts';
import type { UnreadableTransaction } from '../../chain/rpc/responses.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import type { ChainClock } from '../../chain/time.ts';
import type { Fees } from '../../chain/transactions/fees.ts';
import type { TransactionVersions } from '../../chain/transactions/version.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import type { Notifier } from '../../db/postgres/notify.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { Rules } from '../../domain/collecting/decision.ts';
import type { SponsorLimits } from '../../domain/offers/limits.ts';
import type { Log } from '../../log.ts';
import type { KeeperMetrics } from './metrics.ts';
import type { KeeperTimes } from './times.ts';

/** Counts and logs unreadable transactions, each signature once. */
export type ReportUnreadable = (found: readonly UnreadableTransaction[]) => void;

/** Dependencies and settings that all steps of the keeper share. */
export interface Context {
  readonly sql: Sql;
  readonly log: Log;
  readonly rpc: Rpc;
  readonly clock: ChainClock;
  readonly times: KeeperTimes;
  /**
   * Chooses priority fees and compute limits, and adapts both when payments land, expire or run out
   * of compute units.
   */
  readonly fees: Fees;
  readonly versions: Pick<TransactionVersions, 'refused'>;
  readonly metrics: KeeperMetrics;
  readonly reportUnreadable: ReportUnreadable;
  /**
   * Called with subscription rows after the keeper has read them from Postgres, and again after the
   * keeper has written them.
   */
  readonly onRead: (rows: readonly KeeperSubscription[]) => void;
  /** If an account is missing at one RPC endpoint, decides whether the account no longer exists. */
  readonly absence: AbsenceJudge;
  /** Tells the dispatchers that webhook deliveries were queued. */
  readonly deliveries: Notifier;
  readonly programId: string;
  readonly mint: string;
  /** The first configured keypair. */
  readonly keypair: Keypair;
  /**
   * All keypairs by address. A payment is signed with a keypair that its plan names as a puller.
   */
  readonly keypairs: ReadonlyMap<string, Keypair>;
  /** Addresses of all keeper wallets, including wallets that are no longer used. */
  readonly keeperWallets: readonly string[];
  /** Wallets that can receive the platform fee, with the preferred wallet first. */
  readonly treasuries: readonly string[];
  readonly rules: Rules;
  /** Budgets of sponsored transactions. Undefined if no new transaction is sponsored. */
  readonly sponsoring: SponsorLimits | undefined;
  /**
   * Maximum network fees (lamports a day) of this installation for closing sponsored accounts. Once
   * the rent of an account has come back, the fee of its closing is no longer counted.
   */
  readonly closingBudget: bigint;
}
