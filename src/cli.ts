// The commander tree: maps flags to calls. The only place that prints an error and decides the exit code (0 done, 1 failed, 2 wrong usage).
import { readFileSync } from 'node:fs';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import type { ReconcileFlags } from './commands/reconcile.ts';
import type { ReplayFlags } from './commands/replay.ts';
import type { SandboxFlags } from './commands/sandbox.ts';
import { messageOf, OperatorError } from './errors.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string };

function wholeNumber(min: number, max = Number.MAX_SAFE_INTEGER) {
  return (value: string): number => {
    const number = Number(value);
    if (!/^\d+$/.test(value) || number < min || number > max)
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    return number;
  };
}

interface EnvFlag {
  envFile?: string;
}

function build(finish: (code: number) => void): Command {
  const program = new Command('billing')
    .description('Recurring USDC payments on Solana: collects subscriptions, tells merchants by signed webhooks.')
    .version(version)
    .showHelpAfterError('(add --help for how it is used)')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text) });

  const withEnv = (command: Command) =>
    command.addOption(new Option('--env-file <path>', 'read variables that the environment does not have from a .env file')).exitOverride();

  withEnv(program.command('serve').description('the REST API')).action(async ({ envFile }: EnvFlag) => {
    const { serve } = await import('./commands/serve.ts');
    finish(await serve(envFile));
  });
  withEnv(program.command('keeper').description('collects due payments and follows the chain')).action(async ({ envFile }: EnvFlag) => {
    const { keeper } = await import('./commands/keeper.ts');
    finish(await keeper(envFile));
  });
  withEnv(program.command('dispatch').description('delivers webhooks')).action(async ({ envFile }: EnvFlag) => {
    const { dispatch } = await import('./commands/dispatch.ts');
    finish(await dispatch(envFile));
  });
  withEnv(program.command('migrate').description('brings the database schema up to this release'))
    .option('--json', 'print what was applied as JSON')
    .action(async ({ envFile, json }: EnvFlag & { json?: boolean }) => {
      const { migrateCommand } = await import('./commands/migrate.ts');
      finish(await migrateCommand(envFile, json === true));
    });
  withEnv(program.command('replay').description('sends events again: of the deliveries named, or of all that the filters match'))
    .argument('[deliveryId...]', 'deliveries whose events are queued again')
    .option('--webhook <id>', 'deliveries of this webhook endpoint')
    .option('--app <id>', 'deliveries and unsent events of this app')
    .option('--status <status>', 'failed, delivered, pending, cancelled or unsent')
    .option('--type <type>', 'events of this type')
    .option('--since <time>', 'events from this time on (ISO 8601)')
    .option('--until <time>', 'events before this time (ISO 8601)')
    .option('--dry-run', 'count only')
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON object')
    .action(async (ids: string[], flags: ReplayFlags) => {
      const { replay } = await import('./commands/replay.ts');
      finish(await replay(ids, flags));
    });
  withEnv(program.command('reconcile').description('compares recorded payments with the chain, both ways, and names each difference'))
    .option('--since <time>', 'from this time on (ISO 8601; the last 30 days when absent)')
    .option('--until <time>', 'before this time (ISO 8601)')
    .option('--repair', 'record what the chain has and the database lacks; nothing is deleted')
    .option('--json', 'print one JSON object')
    .action(async (flags: ReconcileFlags) => {
      const { reconcileCommand } = await import('./commands/reconcile.ts');
      finish(await reconcileCommand(flags));
    });
  program
    .command('localnet')
    .description('the local chain alone: LiteSVM behind a Solana JSON-RPC, with the Subscriptions program and a USDC mint')
    .exitOverride()
    .option('--port <port>', 'JSON-RPC over HTTP; 0 is any', wholeNumber(0, 65_535), 8899)
    .option('--ws-port <port>', 'WebSocket; the HTTP port + 1 when absent', wholeNumber(0, 65_535))
    .option('--data-dir <dir>', 'keep the chain here over restarts')
    .option('--block-ms <ms>', 'milliseconds between blocks', wholeNumber(0, 60_000), 400)
    .option('--json', 'print addresses as one line of JSON')
    .action(async (flags: { port: number; wsPort?: number; dataDir?: string; blockMs: number; json?: boolean }) => {
      const { localnet } = await import('./commands/localnet.ts');
      finish(await localnet(flags));
    });
  program
    .command('sandbox')
    .description('everything at once on this machine: Postgres, local chain, serve, keeper, dispatch, a merchant and wallets that play')
    .exitOverride()
    .option('--once', 'play the scenario to its end, check every invariant and exit')
    .option('--json', 'print one JSON object (with --once the summary, else the addresses when all is up)')
    .option('--subscribers <n>', 'wallets that subscribe', wholeNumber(8, 10_000), 50)
    .option('--periods <n>', 'billing periods to play', wholeNumber(4, 120), 6)
    .option('--seed <n>', 'seed of the scenario', wholeNumber(0), 1)
    .option('--chaos <n>', 'kill -9 serve, keeper, dispatch or Postgres n times at random moments', wholeNumber(0, 1000), 0)
    .option('--data-dir <dir>', 'keep Postgres and the chain here')
    .option('--no-play', 'start everything but leave the wallets idle')
    .action(async (flags: SandboxFlags) => {
      const { sandbox } = await import('./commands/sandbox.ts');
      finish(await sandbox(flags));
    });
  return program;
}

/** Runs one command line (process.argv) and returns the exit code. Prints every error; throws none. */
export async function main(argv: string[]): Promise<number> {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // The reader has gone (| head): nothing is left to say.
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  let code = 0;
  try {
    await build((result) => (code = result)).parseAsync(argv);
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof OperatorError) {
      process.stderr.write(`billing: ${error.message}\n`);
      return error.exitCode;
    }
    process.stderr.write(
      `billing: this is a bug of billing: ${error instanceof Error ? (error.stack ?? error.message) : messageOf(error)}\n`,
    );
    return 1;
  }
}
