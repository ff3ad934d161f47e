// Transactions that no RPC endpoint returns readable: counted and named.
import type { UnreadableTransaction } from '../chain/answers.ts';
import type { Log } from '../log.ts';
import type { KeeperMetrics } from './metrics.ts';

/** Signatures that are remembered. A signature that was forgotten is counted again. */
const MOST_KNOWN = 10_000;

/** Counts and logs unreadable transactions, each signature once. */
export type ReportUnreadable = (found: readonly UnreadableTransaction[]) => void;

/** Reports to `log` and `metrics`. */
export function createUnreadableReport(
  log: Pick<Log, 'warn'>,
  metrics: Pick<KeeperMetrics, 'unreadable'>,
): ReportUnreadable {
  const known = new Set<string>();
  return (found) => {
    for (const { signature, unreadable: reason } of found) {
      if (known.has(signature)) continue;
      known.add(signature);
      const [oldest] = known;
      if (known.size > MOST_KNOWN && oldest !== undefined) known.delete(oldest);
      metrics.unreadable.inc({ reason });
      log.warn({ signature, reason }, 'transaction unreadable');
    }
  };
}
