// The command line: defines the tree of commands, prints all errors and decides the exit code (0
// done, 1 failed, 2 wrong usage). The file of a command is imported only when the user names the
// command. Therefore `billing --help` imports no command's file.
import { Command, CommanderError, Help } from 'commander';
import type { SetExitCode } from './cli/arguments.ts';
import { safeLines } from './cli/terminal/safe-text.ts';
import { readRelease } from './config/release.ts';
import { messageOf, OperatorError } from './errors.ts';

interface Entry {
  /** The command as shown by --help: its name and a summary of its arguments. */
  term: string;
  description: string;
  /** Imports the function that adds arguments, options and actions to the command. */
  load: () => Promise<(command: Command, setExitCode: SetExitCode) => void>;
}

const daemons: Entry[] = [
  {
    term: 'serve [options]',
    description: 'the REST API',
    load: async () => (await import('./cli/operate/daemons.ts')).addServe,
  },
  {
    term: 'keeper [options]',
    description: 'collects due payments and follows the chain',
    load: async () => (await import('./cli/operate/daemons.ts')).addKeeper,
  },
  {
    term: 'dispatch [options]',
    description: 'delivers webhooks',
    load: async () => (await import('./cli/operate/daemons.ts')).addDispatch,
  },
  {
    term: 'configure [options]',
    description:
      'records cluster, mint, program, keepers, treasuries and the platform fee, which all daemons must share',
    load: async () => (await import('./cli/operate/configure.ts')).addConfigure,
  },
  {
    term: 'migrate [options]',
    description: 'migrates the database schema to this release',
    load: async () => (await import('./cli/operate/migrate.ts')).addMigrate,
  },
  {
    term: 'doctor [options]',
    description:
      'checks before a start that configuration, Postgres and chain are as the daemons need them; changes nothing',
    load: async () => (await import('./cli/operate/doctor.ts')).addDoctor,
  },
  {
    term: 'config',
    description: 'the effective configuration',
    load: async () => (await import('./cli/operate/config.ts')).addConfig,
  },
];

/** Commands for operators and monitoring. These commands use the database directly. */
const operations: Entry[] = [
  {
    term: 'keys',
    description: "merchants' API keys",
    load: async () => (await import('./cli/operate/keys.ts')).addKeys,
  },
  {
    term: 'merchants',
    description: 'merchants: tier, platform fee, apps and subscriptions',
    load: async () => (await import('./cli/operate/merchants.ts')).addMerchants,
  },
  {
    term: 'wallets',
    description: 'suspended wallets of subscribers',
    load: async () => (await import('./cli/operate/suspend.ts')).addWallets,
  },
  {
    term: 'actions [options]',
    description: 'what operators changed: who, on which host, when, what and why',
    load: async () => (await import('./cli/operate/actions.ts')).addActions,
  },
  {
    term: 'status [options]',
    description:
      'health of payments and webhooks: queues, lag, SOL, last errors; exit code 1 past a limit',
    load: async () => (await import('./cli/operate/status.ts')).addStatus,
  },
  {
    term: 'deliveries [options]',
    description: 'webhook deliveries, newest first: a live list (database, terminal), else a table',
    load: async () => (await import('./cli/operate/deliveries.ts')).addDeliveries,
  },
  {
    term: 'replay [options] [deliveryId...]',
    description: 'sends events again: those of the given deliveries, or all that match the filters',
    load: async () => (await import('./cli/operate/replay.ts')).addReplay,
  },
  {
    term: 'reconcile [options]',
    description:
      'compares recorded payments with the chain in both directions and lists each difference',
    load: async () => (await import('./cli/operate/reconcile.ts')).addReconcile,
  },
  {
    term: 'collection',
    description: 'stops and continues the signing of payments',
    load: async () => (await import('./cli/operate/collection.ts')).addCollection,
  },
];

/**
 * Commands for a merchant's developers. `listen`, `trigger` and `mcp` need an API key, which
 * `login` stores. `localnet` and `sandbox` need no credentials.
 */
const development: Entry[] = [
  {
    term: 'listen [options]',
    description: "forwards an app's events to a local server as they happen, signed like webhooks",
    load: async () => (await import('./cli/develop/listen.ts')).addListen,
  },
  {
    term: 'dev [options]',
    description:
      'one command for development: the service, an app, a plan, a funded wallet, a checkout link, and "listen" to your server',
    load: async () => (await import('./cli/local/dev.ts')).addDev,
  },
  {
    term: 'trigger [options] <type>',
    description:
      'sends a sample event to the app\'s webhook endpoint and to "billing listen" (development only)',
    load: async () => (await import('./cli/develop/trigger.ts')).addTrigger,
  },
  {
    term: 'login [options]',
    description: 'keeps an API key for the commands that use the API',
    load: async () => (await import('./cli/develop/login.ts')).addLogin,
  },
  {
    term: 'logout [options]',
    description: 'removes an API key that "login" keeps',
    load: async () => (await import('./cli/develop/login.ts')).addLogout,
  },
  {
    term: 'mcp [options]',
    description: "the API's operations as tools of an AI assistant: an MCP server on stdio",
    load: async () => (await import('./cli/develop/mcp.ts')).addMcp,
  },
  {
    term: 'wallet',
    description:
      'keypair files of wallets: makes them, reads balances, signs and sends transactions of the API',
    load: async () => (await import('./cli/develop/wallet.ts')).addWallet,
  },
  {
    term: 'localnet [options]',
    description:
      'runs only the local chain: LiteSVM behind a Solana JSON-RPC, with the Subscriptions program and a USDC mint',
    load: async () => (await import('./cli/local/localnet.ts')).addLocalnet,
  },
  {
    term: 'sandbox [options]',
    description:
      'runs everything on this machine: Postgres, local chain, serve, keeper, dispatch, a merchant, and wallets that play a scenario',
    load: async () => (await import('./cli/local/sandbox.ts')).addSandbox,
  },
  {
    term: 'completion <shell>',
    description: 'prints the completion script for bash, zsh or fish',
    load: async () => (await import('./cli/operate/completion.ts')).addCompletion,
  },
];

/** The command that needs the complete tree of commands. */
const COMPLETION = 'completion';

const groups = { 'Run:': daemons, 'Operate:': operations, 'Develop:': development };

/**
 * Builds the tree of commands. A command's arguments, options and actions are added only if
 * `isNamed` returns true for its name.
 */
export async function buildTree(
  isNamed: (name: string) => boolean,
  setExitCode: SetExitCode,
): Promise<Command> {
  const terms = new Map<Command, string>();
  const program = new Command('billing')
    .description(
      'Recurring USDC payments on Solana: collects subscriptions and notifies merchants by signed webhooks.',
    )
    .version(readRelease())
    .showHelpAfterError('(add --help for how it is used)')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text) })
    .configureHelp({
      subcommandTerm: (command) => terms.get(command) ?? new Help().subcommandTerm(command),
    });
  for (const [heading, entries] of Object.entries(groups)) {
    program.commandsGroup(heading);
    for (const { term, description, load } of entries) {
      const [name = ''] = term.split(' ');
      const command = program.command(name).description(description);
      terms.set(command, term);
      if (isNamed(name)) (await load())(command, setExitCode);
    }
  }
  // Both "localnet" and "localnet fund" have the option --json. With positional options, commander
  // assigns an option after a subcommand's name to the subcommand.
  return program.enablePositionalOptions();
}

/** Returns the command's name from the arguments of `billing NAME` or `billing help NAME`. */
function nameIn(args: readonly string[]): string | undefined {
  const [first, second] = args.filter((arg) => !arg.startsWith('-'));
  return first === 'help' ? second : first;
}

/**
 * Runs the command line `argv` (process.argv) and returns the exit code. Prints every error and
 * never rejects.
 */
export async function main(argv: string[]): Promise<number> {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // EPIPE means that the process that reads the pipe has exited (as with `| head`). EIO means
      // that the terminal is closed. In both cases the command continues and keeps its exit code.
      if (error.code === 'EPIPE' || error.code === 'EIO') return;
      if (!isDiskFull(error)) throw error;
      process.exitCode ??= sayUnwritten(error);
    });
  }
  let code = 0;
  try {
    const named = nameIn(argv.slice(2));
    const program = await buildTree(
      (name) => name === named || named === COMPLETION,
      (result) => (code = result),
    );
    await program.parseAsync(argv);
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (isDiskFull(error)) return sayUnwritten(error);
    if (error instanceof OperatorError) {
      process.stderr.write(`billing: ${safeLines(error.message).join('\n')}\n`);
      return error.exitCode;
    }
    process.stderr.write(
      `billing: this is a bug in billing: ${error instanceof Error ? (error.stack ?? error.message) : messageOf(error)}\n`,
    );
    return 1;
  }
}

/** Codes of a full disk, a full quota and a file at its largest size. */
const DISK_FULL = ['ENOSPC', 'EDQUOT', 'EFBIG'];

function isDiskFull(error: unknown): boolean {
  return error instanceof Error && DISK_FULL.includes((error as NodeJS.ErrnoException).code ?? '');
}

/** Says that output is lost. Returns the exit code. */
function sayUnwritten(error: unknown): number {
  process.stderr.write(`billing: the output could not be written: ${messageOf(error)}\n`);
  return 1;
}
