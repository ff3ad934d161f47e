// What every part of the keeper works with.
import type { Keypair } from '../chain/keypair.ts';
import type { Rpc } from '../chain/rpc.ts';
import type { Sql } from '../db/connect.ts';
import type { Notifier } from '../db/notify.ts';
import type { Rules } from '../domain/decision.ts';
import type { Log } from '../log.ts';
import type { KeeperMetrics } from './metrics.ts';

export interface Context {
  readonly sql: Sql;
  readonly log: Log;
  readonly rpc: Rpc;
  readonly metrics: KeeperMetrics;
  /** Wakes the dispatchers. */
  readonly deliveries: Notifier;
  readonly programId: string;
  readonly mint: string;
  readonly keypair: Keypair;
  readonly rules: Rules;
}
