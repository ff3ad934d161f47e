// `billing reconcile`: every recorded payment against the chain, and every pull of our keeper on chain against the books.
import Table from 'cli-table3';
import { SUBSCRIPTIONS_PROGRAM } from '../chain/addresses.ts';
import { readKeypair } from '../chain/keypair.ts';
import { createRpc } from '../chain/rpc.ts';
import type { Config } from '../config.ts';
import { createNotifier, deliveriesQueued } from '../db/notify.ts';
import { messageOf, OperatorError } from '../errors.ts';
import { reconcile, type Reconciliation } from '../keeper/reconcile.ts';
import { runCommand } from '../run.ts';

export interface ReconcileFlags {
  envFile?: string;
  since?: string;
  until?: string;
  repair?: boolean;
  json?: boolean;
}

const DAY_MS = 86_400_000;

/** Compares, prints each difference, and returns the exit code: 1 while a difference is left. The last 30 days unless told otherwise. */
export function reconcileCommand(flags: ReconcileFlags): Promise<number> {
  const until = parseTime('--until', flags.until) ?? new Date(Date.now() + DAY_MS);
  const since = parseTime('--since', flags.since) ?? new Date(until.getTime() - 31 * DAY_MS);
  if (since >= until) throw new OperatorError('--since must be before --until.', 2);
  return runCommand(flags.envFile, async ({ config, log, sql }) => {
    if (config.rpcUrls === undefined) throw new OperatorError('SOLANA_RPC_URL is required to compare with the chain.', 2);
    const keeper = await keeperOf(config);
    const rpc = createRpc({ urls: config.rpcUrls, requestsPerSecond: config.rpcRate === 0 ? undefined : config.rpcRate, log });
    try {
      const reconciler = { sql, rpc, programId: config.programId ?? SUBSCRIPTIONS_PROGRAM, keeper };
      const result = await reconcile(reconciler, { since, until, repair: flags.repair === true });
      if (result.differences.some(({ repaired }) => repaired)) {
        const notifier = createNotifier(sql, deliveriesQueued);
        notifier.notify();
        await notifier.flush();
      }
      process.stdout.write(
        flags.json === true ? `${JSON.stringify({ since, until, ...result })}\n` : describe(result, flags.repair === true),
      );
      return result.differences.every(({ repaired }) => repaired) ? 0 : 1;
    } finally {
      await rpc.close();
    }
  });
}

async function keeperOf({ keeperAddress, keeperKeypair }: Config): Promise<string> {
  if (keeperAddress !== undefined) return keeperAddress;
  if (keeperKeypair === undefined)
    throw new OperatorError('KEEPER_ADDRESS (or KEEPER_KEYPAIR) is required: whose pulls are to be compared.', 2);
  const { address } = await readKeypair(keeperKeypair).catch((error: unknown) => {
    throw new OperatorError(`KEEPER_KEYPAIR cannot be used: ${messageOf(error)}.`, 2, { cause: error });
  });
  return address;
}

function parseTime(flag: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const time = new Date(text);
  if (Number.isNaN(time.getTime()))
    throw new OperatorError(`${flag} must be a time in ISO 8601, such as 2026-01-31 or 2026-01-31T12:00:00Z.`, 2);
  return time;
}

function describe({ recorded, onChain, differences }: Reconciliation, repair: boolean): string {
  const compared = `${recorded} recorded payments and ${onChain} pulls of the keeper on chain were compared`;
  if (differences.length === 0) return `${compared}: no difference.\n`;
  const table = new Table({
    head: ['Difference', 'Transaction', 'Subscription', 'Detail', ...(repair ? ['Recorded now'] : [])],
    style: { head: [] },
  });
  for (const { kind, signature, subscriptionPda, detail, repaired } of differences) {
    table.push([kind, signature, subscriptionPda, detail, ...(repair ? [repaired ? 'yes' : 'no'] : [])]);
  }
  const left = differences.filter(({ repaired }) => !repaired).length;
  const hint = !repair && differences.some(({ kind }) => kind === 'not_recorded') ? ' --repair records what is missing.' : '';
  return `${table.toString()}\n${compared}: ${differences.length} differences, ${left} left.${hint}\n`;
}
