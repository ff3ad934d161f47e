// Commands that only need this machine.
import type { Command } from 'commander';
import { messageOf, OperatorError } from '../errors.ts';
import { decimal, wholeNumber, type Finish } from './arguments.ts';
import type { FundFlags } from './local/localnet-fund.ts';
import type { LocalnetFlags } from './local/localnet.ts';
import type { SandboxFlags } from './local/sandbox.ts';

export function addLocal(program: Command, finish: Finish): void {
  addLocalnet(program, finish);
  addSandbox(program, finish);
}

function addLocalnet(program: Command, finish: Finish): void {
  const localnet = program
    .command('localnet')
    .description(
      'runs only the local chain: LiteSVM behind a Solana JSON-RPC, with the Subscriptions program and a USDC mint',
    )
    .option('--port <port>', 'JSON-RPC over HTTP; 0: any free port', wholeNumber(0, 65_535), 8899)
    .option('--ws-port <port>', 'WebSocket; default: the HTTP port + 1', wholeNumber(0, 65_535))
    .option(
      '--lag-port <port>',
      'JSON-RPC of a second node, which localnet_setFault {kind: "lag"} delays; default: none',
      wholeNumber(0, 65_535),
    )
    .option('--data-dir <dir>', 'keep the chain in this directory across restarts')
    .option('--block-ms <ms>', 'milliseconds between blocks', wholeNumber(0, 60_000), 300)
    .option(
      '--rent-lamports-per-byte <n>',
      'rent per byte: 6960, 5080 since autumn 2026, 696 at the end of the reductions (default: 5080, or the value in the data directory)',
      wholeNumber(1, 1_000_000),
    )
    .option('--json', 'print addresses as one line of JSON')
    .action(async (flags: LocalnetFlags) => {
      const { localnet: run } = await withOptional(() => import('./local/localnet.ts'));
      finish(await run(flags));
    });
  // "fund" has its own --json. Positional options assign an option to the command whose name
  // precedes it.
  program.enablePositionalOptions();
  localnet.enablePositionalOptions();
  localnet
    .command('fund')
    .description('gives a wallet SOL and USDC on a local chain (of localnet or sandbox)')
    .argument('<address>', "the wallet's address")
    .option('--usdc <amount>', 'USDC, such as 100 or 0.5', decimal(6), 0n)
    .option('--sol <amount>', 'SOL, such as 1 or 0.25', decimal(9), 0n)
    .option('--rpc-url <url>', 'the local chain', 'http://127.0.0.1:8899')
    .option('--json', 'print the balances as one JSON object')
    .action(async (address: string, flags: FundFlags) => {
      const { fund } = await withOptional(() => import('./local/localnet-fund.ts'));
      finish(await fund(address, flags));
    });
}

function addSandbox(program: Command, finish: Finish): void {
  program
    .command('sandbox')
    .description(
      'runs everything on this machine: Postgres, local chain, serve, keeper, dispatch, a merchant, and wallets that play a scenario',
    )
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
      const { sandbox } = await withOptional(() => import('./local/sandbox.ts'));
      finish(await sandbox(flags));
    });
}

/** Imports with `load`. Throws an OperatorError when an optional package is not installed. */
async function withOptional<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (error) {
    const [, missing] = /^Cannot find package '([^']+)'/.exec(messageOf(error)) ?? [];
    if (missing === undefined) throw error;
    throw new OperatorError(
      `this needs the package ${missing}, which is optional and not installed: install without --omit=optional.`,
      1,
      {
        cause: error,
      },
    );
  }
}
