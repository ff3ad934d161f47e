// Measures the time from the top-up of a past-due wallet to its payment on chain, while the keeper
// follows 10,000 (or PAST_DUE) past-due subscriptions. Also measures the cost of a thousand dust
// transfers. Chain, keeper and Postgres are separate processes.
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { startServer } from './dispatch/harness.ts';
import { startChain } from './keeper/scene.ts';
import { DEFAULT_BLOCK_MS, measureTopUps, percentile } from './keeper/top-ups.ts';
import type { Result } from './run.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

export async function run(): Promise<Result> {
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  const server = await startServer();
  const chain = await startChain(DEFAULT_BLOCK_MS);
  const database = await server.database('top_ups');
  const pastDue = Number(process.env.PAST_DUE ?? 10_000);
  const { collectedMs, dustRequests, dustNotifications } = await measureTopUps(chain, database, {
    pastDue,
    topUps: Math.min(500, pastDue / 2),
    perSecond: 5,
    dust: 1000,
  });
  chain.stop();
  await database.drop();
  await server.stop();
  return {
    figures: {
      pastDueFollowed: pastDue,
      topUpToCollectedP50Ms: percentile(collectedMs, 0.5),
      topUpToCollectedP95Ms: percentile(collectedMs, 0.95),
      topUpToCollectedP99Ms: percentile(collectedMs, 0.99),
      rpcRequestsForDust: dustRequests,
      noticesForDust: dustNotifications,
    },
    ratios: {},
  };
}
