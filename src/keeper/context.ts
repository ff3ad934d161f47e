import type { Keypair } from '../chain/keypair.ts';
import type { AbsenceJudge } from '../chain/rpc/absence.ts';
import type { Rpc } from '../chain/rpc/client.ts';
import type { ChainClock } from '../chain/time.ts';
import type { Fees } from '../chain/transactions/fees.ts';
import type { TransactionVersions } from '../chain/transactions/version.ts';
import type { Sql } from '../db/postgres/connect.ts';
import type { Notifier } from '../db/postgres/notify.ts';
import type { KeeperSubscription } from '../db/subscription-work.ts';
import type { Rules } from '../domain/collecting/decision.ts';
import type { Log } from '../log.ts';
import type { KeeperMetrics } from './metrics.ts';
import type { ReportUnreadable } from './reports.ts';

/** What every step of the keeper works with. */
export interface Context {
  readonly sql: Sql;
  readonly log: Log;
  readonly rpc: Rpc;
  readonly clock: ChainClock;
  /** Learns of expired and landed payments, and of exceeded compute limits. */
  readonly fees: Fees;
  readonly versions: Pick<TransactionVersions, 'refused'>;
  readonly metrics: KeeperMetrics;
  readonly reportUnreadable: ReportUnreadable;
  /** Gets each subscription that is read, and again as it was written. */
  readonly onRead: (rows: readonly KeeperSubscription[]) => void;
  /** Tells whether accounts that an endpoint does not have are gone. */
  readonly absence: AbsenceJudge;
  /** Wakes the dispatchers. */
  readonly deliveries: Notifier;
  readonly programId: string;
  readonly mint: string;
  /** The keypair in use. */
  readonly keypair: Keypair;
  /** All keypairs by their address: a plan is collected from with one that it names. */
  readonly keypairs: ReadonlyMap<string, Keypair>;
  /** Our wallets, former ones too. */
  readonly keeperWallets: readonly string[];
  /** Wallets that take the fee, the preferred one first. */
  readonly treasuries: readonly string[];
  readonly rules: Rules;
}
