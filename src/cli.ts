// The commander tree: maps flags to calls, one file of cli/ per group. The only place that prints
// errors and decides the exit code (0 done, 1 failed, 2 wrong usage).
import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { addAdmin } from './cli/admin.ts';
import { addDaemons } from './cli/daemons.ts';
import { addDevelopers } from './cli/developers.ts';
import { addLocal } from './cli/local.ts';
import { safeLines } from './cli/terminal/safe-text.ts';
import { messageOf, OperatorError } from './errors.ts';

const { version } = JSON.parse(
  readFileSync(new URL('../package.json', import.meta.url), 'utf8'),
) as { version: string };

// Commands are imported when they run, so that --help does not load them.
function build(finish: (code: number) => void): Command {
  const program = new Command('billing')
    .description(
      'Recurring USDC payments on Solana: collects subscriptions and notifies merchants by signed webhooks.',
    )
    .version(version)
    .showHelpAfterError('(add --help for how it is used)')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text) });
  program.commandsGroup('Run:');
  addDaemons(program, finish);
  program.commandsGroup('Operate:');
  addAdmin(program, finish);
  program.commandsGroup('Develop:');
  addDevelopers(program, finish);
  addLocal(program, finish);
  return program;
}

/**
 * Runs one command line (process.argv) and returns the exit code. Prints every error and never
 * throws.
 */
export async function main(argv: string[]): Promise<number> {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      // The reader of the pipe has exited (| head), or the terminal is closed (EIO). The command
      // continues and keeps its exit code.
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
    });
  }
  let code = 0;
  try {
    await build((result) => (code = result)).parseAsync(argv);
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
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
