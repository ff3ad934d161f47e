// The flags of `billing sandbox`. sandbox-run.ts needs optional packages, so this file imports
// sandbox-run.ts only when the command runs.
import type { Command } from 'commander';
import { type SetExitCode, wholeNumber } from '../arguments.ts';
import { withOptional } from './optional.ts';
import type { SandboxFlags } from './sandbox-run.ts';

export function addSandbox(command: Command, setExitCode: SetExitCode): void {
  command
    .option('--once', 'play the scenario to its end, check every invariant and exit')
    .option(
      '--json',
      'print one JSON object (with --once the summary, else the addresses once everything is up)',
    )
    .option('--subscribers <n>', 'wallets that subscribe', wholeNumber(8, 10_000), 50)
    .option('--periods <n>', 'billing periods to play', wholeNumber(4, 120), 6)
    .option('--seed <n>', 'seed of the scenario', wholeNumber(0), 1)
    .option(
      '--chaos <n>',
      'kill -9 serve, keeper, dispatch or Postgres n times at random moments',
      wholeNumber(0, 1000),
      0,
    )
    .option('--data-dir <dir>', 'keep Postgres and the chain in this directory')
    .option(
      '--secrets',
      "with --json: include the demo wallet's key and the URLs of pages that open with it",
    )
    .option(
      '--write-wallets <dir>',
      'write the wallets to this directory as keypair files (merchant.json, subscriber.json, ...), and once everything is up a file env: API, RPC, app, plan, API key',
    )
    .option('--no-play', 'start everything but leave the wallets idle')
    .action(async (flags: SandboxFlags) => {
      const { sandbox } = await withOptional(() => import('./sandbox-run.ts'));
      setExitCode(await sandbox(flags));
    });
}
