// `billing status`: one screen of whether money and webhooks flow, and one JSON object for monitors. What is past its limit is named, and makes
// the exit code 1.
import { required } from '../config.ts';
import { describeDatabase } from '../db/connect.ts';
import { OperatorError } from '../errors.ts';
import { runCommand, type Resources } from '../run.ts';
import { painter } from '../ui/colour.ts';
import { answer, answerJson } from '../ui/print.ts';
import { withProgress } from '../ui/progress.ts';
import { chainStatus, type ChainStatus } from './status/chain.ts';
import { queueStatus, type QueueStatus } from './status/queues.ts';
import { problemsOf, type Limits } from './status/limits.ts';
import { screen } from './status/screen.ts';

export interface StatusFlags extends Limits {
  envFile?: string;
  json?: boolean;
}

export interface Status {
  ok: boolean;
  /** What is past its limit, in words. */
  problems: string[];
  at: Date;
  environment: string;
  database: QueueStatus['database'] & { address: string };
  payments: QueueStatus['payments'];
  deliveries: QueueStatus['deliveries'];
  /** null where SOLANA_RPC_URL is not configured. */
  chain: ChainStatus | null;
  /** null where neither KEEPER_ADDRESS nor KEEPER_KEYPAIR is configured; `sol` null when the chain could not be asked. */
  keeper: { address: string; sol: number | null } | null;
  errors: QueueStatus['errors'];
}

/** Prints the status. Returns the exit code: 1 when something is past its limit. */
export async function status({ envFile, json = false, ...limits }: StatusFlags): Promise<number> {
  try {
    return await runCommand(envFile, async (resources) => {
      const found = await withProgress('asking Postgres and the chain', () => readStatus(resources, limits));
      if (json) answerJson(found);
      else answer(screen(found, painter(process.stdout)));
      return found.ok ? 0 : 1;
    });
  } catch (error) {
    // A monitor that reads JSON is told in JSON; a wrong configuration is no status.
    if (json && error instanceof OperatorError && error.exitCode === 1)
      answerJson({ ok: false, problems: [error.message], at: new Date() });
    throw error;
  }
}

async function readStatus({ config, sql, log }: Resources, limits: Limits): Promise<Status> {
  const { chain, keeper } = await chainStatus(config, log);
  const queues = await queueStatus(sql, chain?.time ?? null);
  const { databaseUrl } = required(config, 'databaseUrl');
  const found: Omit<Status, 'ok' | 'problems'> = {
    at: queues.database.now,
    environment: config.env,
    ...queues,
    database: { address: describeDatabase(databaseUrl), ...queues.database },
    chain,
    keeper,
  };
  const problems = problemsOf(found, { ...limits, local: config.cluster === 'localnet' });
  return { ok: problems.length === 0, problems, ...found };
}
