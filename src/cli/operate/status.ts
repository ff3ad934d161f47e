// `billing status`: shows the health of payments and webhooks, as a screen or as one JSON object
// for monitors. The exit code is 1 when a value is past its limit. If only Postgres or only the
// chain does not respond, the facts of the other one are still shown.
import type { Command } from 'commander';
import { loadConfig, required, type Config } from '../../config/config.ts';
import { describeDatabase } from '../../config/postgres-url.ts';
import { compareClocks } from '../../daemon/clocks.ts';
import { interruptible, withPostgres } from '../../daemon/run.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { assertSchema } from '../../db/postgres/migrate.ts';
import { daemonLimits } from '../../db/postgres/settings.ts';
import { sponsorLimits } from '../../domain/offers/limits.ts';
import { Interrupted, OperatorError } from '../../errors.ts';
import { createLog } from '../../log.ts';
import {
  type CommonFlags,
  type SetExitCode,
  listOf,
  oneOf,
  sol,
  wholeNumber,
  withEnv,
} from '../arguments.ts';
import { print, printJson, painter } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { safeText } from '../terminal/safe-text.ts';
import {
  type Facts,
  type Limits,
  type Requirement,
  requirements,
  type Status,
} from './status/facts.ts';
import { problemsOf, uncheckedOf } from './status/limits.ts';
import { queueStatus } from './status/queues.ts';
import { endpointTable, screen } from './status/screen.ts';
import { merchantTable } from './status/sponsoring.ts';

interface StatusFlags extends CommonFlags, Limits {
  by?: 'endpoint' | 'merchant';
  nagios?: boolean;
  /** The parts that must have been checked, and the kinds of daemons that must run. */
  require?: readonly Requirement[];
}

export function addStatus(command: Command, setExitCode: SetExitCode): void {
  withEnv(command)
    .option('--max-payment-delay <seconds>', 'limit for a due payment', wholeNumber(0), 900)
    .option('--max-delivery-delay <seconds>', 'limit for a due delivery', wholeNumber(0), 300)
    .option(
      '--max-failed <n>',
      'limit for the deliveries given up in the last two days',
      wholeNumber(0),
      0,
    )
    .option('--min-sol <sol>', 'minimum balance of the keeper', sol, 0.1)
    .option(
      '--require <parts>',
      `what must run and have been checked, comma-separated: ${requirements.join(', ')}`,
      listOf(...requirements),
    )
    .option(
      '--by <what>',
      'also list the webhook endpoints that fail or have unfinished deliveries: endpoint; or what sponsored transactions cost: merchant',
      oneOf('endpoint', 'merchant'),
    )
    .option(
      '--nagios',
      'as a plugin of Nagios: one line, and exit code 0 ok, 1 past a limit, 2 no status, 3 not checked',
    )
    .option('--json', 'print one JSON object')
    .action(async (flags: StatusFlags) =>
      setExitCode(await (flags.nagios === true ? pluginStatus(flags) : status(flags))),
    );
}

/**
 * Prints the status. Returns the exit code: 1 when a value is past its limit or a required part was
 * not checked. Throws an OperatorError for an invalid configuration.
 */
async function status({
  envFile,
  json = false,
  require: demanded = [],
  by,
  nagios = false,
  ...limits
}: StatusFlags): Promise<number> {
  const config = loadConfig('admin', { envFile });
  return interruptible(false, async () => {
    const found = await withProgress('asking Postgres and the chain', () =>
      readStatus(config, limits, { demanded, byEndpoint: by === 'endpoint' }),
    );
    const paint = painter(process.stdout);
    const { code, line } = pluginOf(found);
    if (json) printJson(found);
    else if (nagios) print(line);
    else {
      print(screen(found, paint));
      if (found.endpoints !== undefined) print(`\n${endpointTable(found.endpoints, paint)}`);
      if (by === 'merchant' && found.sponsoring !== null)
        print(`\n${merchantTable(found.sponsoring, paint)}`);
    }
    if (nagios) return code;
    return found.ok ? 0 : 1;
  });
}

/**
 * Returns the output line and the exit code of a Nagios plugin. The codes are 0 (OK), 1 (WARNING),
 * 2 (CRITICAL) and 3 (UNKNOWN).
 */
function pluginOf({ database, problems, unchecked }: Status): { code: number; line: string } {
  const notChecked = Object.entries(unchecked).map(([part, why]) => `${part} not checked: ${why}`);
  const [code, word, texts] =
    database.fault !== null
      ? [2, 'CRITICAL', problems]
      : problems.length > 0
        ? [1, 'WARNING', problems]
        : notChecked.length > 0
          ? [3, 'UNKNOWN', notChecked]
          : [0, 'OK', ['payments and webhooks are on time']];
  return { code, line: pluginLine(word, texts.join('; ')) };
}

/**
 * Runs `status` as a plugin of Nagios, which reads stdout alone. An error is therefore printed
 * there too, as one line with exit code 2. Throws Interrupted when a signal stops the command.
 */
async function pluginStatus(flags: StatusFlags): Promise<number> {
  try {
    return await status(flags);
  } catch (error) {
    if (!(error instanceof OperatorError) || error instanceof Interrupted) throw error;
    const lines = error.message.split('\n').map((line) => line.replace(/^ *- /, ''));
    print(pluginLine('CRITICAL', lines.join(' ')));
    return 2;
  }
}

/**
 * Returns the output line of a Nagios plugin. The line has no vertical bar, because Nagios reads
 * the text after a bar as performance data.
 */
function pluginLine(word: string, text: string): string {
  return safeText(`BILLING ${word} - ${text}`).replaceAll('|', '/');
}

async function readStatus(
  config: Config,
  limits: Limits,
  { demanded, byEndpoint }: { demanded: readonly Requirement[]; byEndpoint: boolean },
): Promise<Status> {
  const log = createLog('admin', {
    level: config.logLevel,
    pretty: process.stderr.isTTY,
    stream: 'stderr',
  });
  const { databaseUrl } = required(config, 'databaseUrl');
  // Importing chain.ts takes 200 ms, because it loads the Solana libraries. The import is here, so
  // that --help does not wait for it.
  const { chainStatus } = await import('./status/chain.ts');
  const { chain, keeper } = await chainStatus(config, log);
  const queues = await askDatabase(databaseUrl, (sql) =>
    queueStatus(sql, {
      chainNow: chain?.time ?? null,
      encryptionKeys: config.encryptionKeys,
      sponsorLimits: sponsorLimits(config),
      sendsMails: config.smtpUrl !== undefined,
      byEndpoint,
    }),
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
          sponsoring: null,
          daemons: [],
          work: null,
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
    ...problemsOf(found, limits, demanded),
    ...demanded.flatMap((requirement) => {
      const why =
        requirement === 'serve' || requirement === 'dispatch' ? undefined : unchecked[requirement];
      return why === undefined ? [] : [`${requirement} is not checked: ${why}`];
    }),
  ];
  const state =
    problems.length > 0 ? 'past_limit' : Object.keys(unchecked).length > 0 ? 'unchecked' : 'ok';
  return { ok: problems.length === 0, state, problems, unchecked, ...found };
}

/**
 * Returns the result of `ask`, or the reason why Postgres did not respond. Throws an OperatorError
 * (exit code 2) when the schema is newer than this build.
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
