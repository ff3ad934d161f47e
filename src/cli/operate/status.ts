// `billing status`: shows the health of payments and webhooks, as one screen or as one JSON object
// for monitors. The exit code is 1 when a value is past its limit. When Postgres or the chain does
// not answer, its part is omitted.
import { loadConfig, required, type Config } from '../../config/config.ts';
import { type ClockDifference, compareClocks } from '../../daemon/clocks.ts';
import { interruptible, withPostgres } from '../../daemon/run.ts';
import type { DaemonRow } from '../../db/daemons.ts';
import { daemonLimits, describeDatabase, type Sql } from '../../db/postgres/connect.ts';
import { assertSchema } from '../../db/postgres/migrate.ts';
import { OperatorError } from '../../errors.ts';
import { createLog } from '../../log.ts';
import { painter } from '../terminal/colour.ts';
import { answer, answerJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { chainStatus, type ChainStatus } from './status/chain.ts';
import { type Checkable, problemsOf, type Limits, uncheckedOf } from './status/limits.ts';
import { queueStatus, type QueueStatus } from './status/queues.ts';
import { screen } from './status/screen.ts';

export interface StatusFlags extends Limits {
  envFile?: string;
  /** Parts that must have been checked; an unchecked one is a problem. */
  require?: readonly Checkable[];
  json?: boolean;
}

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
   * `fault`: why Postgres did not answer; null when it did, and the other fields are present then.
   */
  database: Partial<QueueStatus['database']> & { address: string; fault: string | null };
  /** The clocks of Postgres, this host and the chain. */
  clocks: ClockDifference;
  /** Null when Postgres did not answer. */
  payments: QueueStatus['payments'] | null;
  deliveries: QueueStatus['deliveries'] | null;
  collection: QueueStatus['collection'] | null;
  daemons: DaemonRow[];
  /**
   * Webhook secrets that no key of ENCRYPTION_KEY decrypts; null when it is not configured or
   * Postgres did not answer.
   */
  undecipherableSecrets: number | null;
  /** null when SOLANA_RPC_URL is not configured. */
  chain: ChainStatus | null;
  /**
   * null when neither KEEPER_ADDRESS nor KEEPER_KEYPAIR is configured; `sol` is null when the chain
   * did not answer.
   */
  keeper: { address: string; sol: number | null } | null;
  errors: QueueStatus['errors'];
}

/** The facts, before they are compared with the limits. */
export type Facts = Omit<Status, 'ok' | 'state' | 'problems' | 'unchecked'>;

/**
 * Prints the status. Returns the exit code: 1 when a value is past its limit or a required part was
 * not checked. Throws OperatorError (configuration).
 */
export async function status({
  envFile,
  json = false,
  require: demanded = [],
  ...limits
}: StatusFlags): Promise<number> {
  const config = loadConfig('admin', { envFile });
  return interruptible(false, async () => {
    const found = await withProgress('asking Postgres and the chain', () =>
      readStatus(config, limits, demanded),
    );
    if (json) answerJson(found);
    else answer(screen(found, painter(process.stdout)));
    return found.ok ? 0 : 1;
  });
}

async function readStatus(
  config: Config,
  limits: Limits,
  demanded: readonly Checkable[],
): Promise<Status> {
  const log = createLog('admin', {
    level: config.logLevel,
    pretty: process.stderr.isTTY,
    stream: 'stderr',
  });
  const { databaseUrl } = required(config, 'databaseUrl');
  const { chain, keeper } = await chainStatus(config, log);
  const queues = await askDatabase(databaseUrl, (sql) =>
    queueStatus(sql, chain?.time ?? null, config.encryptionKeys),
  );
  const address = describeDatabase(databaseUrl);
  const found: Facts = {
    environment: config.env,
    chain,
    keeper,
    clocks: compareClocks({
      postgres: 'fault' in queues ? null : queues.database.offsetSeconds,
      chain: chain?.offsetSeconds ?? null,
    }),
    ...('fault' in queues
      ? {
          at: new Date(),
          database: { address, fault: queues.fault },
          payments: null,
          deliveries: null,
          collection: null,
          daemons: [],
          undecipherableSecrets: null,
          errors: [],
        }
      : {
          at: queues.database.now,
          ...queues,
          database: { address, fault: null, ...queues.database },
        }),
  };
  const unchecked = uncheckedOf(found);
  const problems = [
    ...problemsOf(found, limits),
    ...demanded.flatMap((what) =>
      unchecked[what] === undefined ? [] : [`${what} is not checked: ${unchecked[what]}`],
    ),
  ];
  const state =
    problems.length > 0 ? 'past_limit' : Object.keys(unchecked).length > 0 ? 'unchecked' : 'ok';
  return { ok: problems.length === 0, state, problems, unchecked, ...found };
}

/**
 * The result of `ask`, or why Postgres did not answer. Throws an OperatorError (exit code 2) for a
 * schema newer than this build.
 */
async function askDatabase<T>(
  databaseUrl: string,
  ask: (sql: Sql) => Promise<T>,
): Promise<T | { fault: string }> {
  try {
    return await withPostgres(
      databaseUrl,
      { max: 2, name: 'billing admin', limits: daemonLimits },
      async (sql) => {
        await assertSchema(sql);
        return ask(sql);
      },
    );
  } catch (error) {
    if (error instanceof OperatorError && error.exitCode === 1) return { fault: error.message };
    throw error;
  }
}
