// What needs nothing but this machine.
import type { Command } from 'commander';
import type { SandboxFlags } from '../commands/sandbox.ts';
import { messageOf, OperatorError } from '../errors.ts';
import { wholeNumber, type Finish } from './arguments.ts';

export function addLocal(program: Command, finish: Finish): void {
  program
    .command('localnet')
    .description(
      'the local chain alone: LiteSVM behind a Solana JSON-RPC, with the Subscriptions program and a USDC mint',
    )
    .option('--port <port>', 'JSON-RPC over HTTP; 0 is any', wholeNumber(0, 65_535), 8899)
    .option('--ws-port <port>', 'WebSocket; the HTTP port + 1 when absent', wholeNumber(0, 65_535))
    .option(
      '--lag-port <port>',
      'JSON-RPC of a second node, which localnet_setFault {kind: "lag"} sets back; none when absent',
      wholeNumber(0, 65_535),
    )
    .option('--data-dir <dir>', 'keep the chain here over restarts')
    .option('--block-ms <ms>', 'milliseconds between blocks', wholeNumber(0, 60_000), 300)
    .option(
      '--rent-lamports-per-byte <n>',
      'rent per byte: 6960, 5080 since autumn 2026, 696 at the end of the reductions (default: 5080, or the value in the data directory)',
      wholeNumber(1, 1_000_000),
    )
    .option('--json', 'print addresses as one line of JSON')
    .action(
      async (flags: {
        port: number;
        wsPort?: number;
        lagPort?: number;
        dataDir?: string;
        blockMs: number;
        rentLamportsPerByte?: number;
        json?: boolean;
      }) => {
        const { localnet } = await withOptional(() => import('../commands/localnet.ts'));
        finish(await localnet(flags));
      },
    );
  program
    .command('sandbox')
    .description(
      'everything at once on this machine: Postgres, local chain, serve, keeper, dispatch, a merchant and wallets that play',
    )
    .option('--once', 'play the scenario to its end, check every invariant and exit')
    .option(
      '--json',
      'print one JSON object (with --once the summary, else the addresses when all is up)',
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
    .option('--data-dir <dir>', 'keep Postgres and the chain here')
    .option('--no-play', 'start everything but leave the wallets idle')
    .action(async (flags: SandboxFlags) => {
      const { sandbox } = await withOptional(() => import('../commands/sandbox.ts'));
      finish(await sandbox(flags));
    });
}

/** What `load` imports. Throws an OperatorError when an optional package that it needs was left out at the install. */
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
