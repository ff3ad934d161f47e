// `billing localnet` runs the local chain. `billing localnet fund` gives a wallet SOL and USDC on
// that chain. The optional packages of both commands are imported when a command runs.
import { once } from 'node:events';
import { type Command, Option } from 'commander';
import { ENDING_SIGNALS } from '../../errors.ts';
import { decimal, type SetExitCode, wholeNumber } from '../arguments.ts';
import type { FundFlags } from './localnet-fund.ts';
import { withOptional } from './optional.ts';

interface LocalnetFlags {
  port: number;
  wsPort?: number;
  lagPort?: number;
  dataDir?: string;
  blockMs: number;
  rentLamportsPerByte?: number;
  hoursAgo?: number;
  json?: boolean;
}

export function addLocalnet(command: Command, setExitCode: SetExitCode): void {
  command
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
    .option(
      '--hours-ago <hours>',
      'a new chain’s clock starts so many hours in the past (default: 0)',
      wholeNumber(0, 200_000),
    )
    .option('--json', 'print addresses as one line of JSON')
    .action(async (flags: LocalnetFlags) => setExitCode(await localnet(flags)))
    // `localnet` and `fund` both have --json. With enablePositionalOptions(), a flag after `fund`
    // belongs to `fund`.
    .enablePositionalOptions();
  command
    .command('fund')
    .description('gives a wallet SOL and USDC on a local chain (of localnet or sandbox)')
    .argument('<address>', "the wallet's address")
    .addOption(amount('--usdc <amount>', 'USDC, such as 100 or 0.5', 6))
    .addOption(amount('--sol <amount>', 'SOL, such as 1 or 0.25', 9))
    .option('--rpc-url <url>', 'the local chain', 'http://127.0.0.1:8899')
    .option('--json', 'print the balances as one JSON object')
    .action(async (address: string, flags: FundFlags) => {
      const { fund } = await withOptional(() => import('./localnet-fund.ts'));
      setExitCode(await fund(address, flags));
    });
}

/** An option whose default is 0n. commander prints a default as JSON, which has no bigint. */
function amount(flags: string, description: string, decimals: number): Option {
  return new Option(flags, description).argParser(decimal(decimals)).default(0n, '0');
}

/**
 * Runs the chain until SIGINT, SIGTERM or SIGHUP and returns 0. Throws an OperatorError when the
 * chain cannot start.
 */
async function localnet({
  port,
  wsPort,
  lagPort,
  dataDir,
  blockMs,
  rentLamportsPerByte,
  hoursAgo,
  json = false,
}: LocalnetFlags): Promise<number> {
  const { startLocalnet } = await withOptional(() => import('../../local/chain/start.ts'));
  const ended = Promise.race([
    ...Object.keys(ENDING_SIGNALS).map((signal) => once(process, signal)),
    ...(process.connected ? [once(process, 'disconnect')] : []),
  ]);
  const chain = await startLocalnet({
    port,
    wsPort,
    lagPort,
    dataDir,
    blockMs,
    rentLamportsPerByte,
    hoursAgo,
  });
  const { rpcUrl, wsUrl, lagUrl, mint, faucet, programId } = chain;
  process.stdout.write(
    json
      ? `${JSON.stringify({ ready: true, rpcUrl, wsUrl, ...(lagUrl !== null && { lagUrl }), mint, faucet, programId })}\n`
      : [
          `JSON-RPC       ${rpcUrl}`,
          `WebSocket      ${wsUrl}`,
          ...(lagUrl === null ? [] : [`lagging node   ${lagUrl}`]),
          `USDC mint      ${mint}   (6 decimals; RPC method localnet_faucet [owner, amount])`,
          `faucet         ${faucet}`,
          `Subscriptions  ${programId}`,
          'ctrl-C ends it.',
          '',
        ].join('\n'),
  );
  await ended;
  await chain.close();
  return 0;
}
