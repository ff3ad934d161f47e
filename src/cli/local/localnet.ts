import { once } from 'node:events';
import { ENDING_SIGNALS } from '../../errors.ts';
import { startLocalnet } from '../../local/chain/start.ts';

export interface LocalnetFlags {
  port: number;
  wsPort?: number;
  lagPort?: number;
  dataDir?: string;
  blockMs: number;
  rentLamportsPerByte?: number;
  json?: boolean;
}

/**
 * `billing localnet`: runs the chain until SIGINT, SIGTERM or SIGHUP and returns 0. Throws an
 * OperatorError when it cannot start.
 */
export async function localnet({
  port,
  wsPort,
  lagPort,
  dataDir,
  blockMs,
  rentLamportsPerByte,
  json = false,
}: LocalnetFlags): Promise<number> {
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
