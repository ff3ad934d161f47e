// `billing localnet fund`: gives a wallet SOL and USDC on a local chain.
import { setTimeout as pause } from 'node:timers/promises';
import bs58 from 'bs58';
import { interruptible } from '../../daemon/run.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { formatUsdcExact } from '../../format.ts';
import { LOCALNET_MINT } from '../../local/chain/genesis.ts';
import { cheat, createSandboxChain } from '../../local/sandbox/chain.ts';
import { createLog } from '../../log.ts';
import { print, printJson } from '../terminal/print.ts';

export interface FundFlags {
  /** USDC in base units (millionths). */
  usdc: bigint;
  /** SOL in lamports. */
  sol: bigint;
  rpcUrl: string;
  json?: boolean;
}

const POLL_MS = 50;

/**
 * Funds the wallet, waits for confirmation, prints the balances and returns 0. Throws an
 * OperatorError for an invalid address or when no local chain responds.
 */
export function fund(address: string, flags: FundFlags): Promise<number> {
  if (bs58.decodeUnsafe(address)?.length !== 32)
    throw new OperatorError(`"${address}" is not a Solana address: Base58 of 32 bytes.`, 2);
  if (flags.usdc === 0n && flags.sol === 0n)
    throw new OperatorError('Say how much: --usdc 100, --sol 1, or both.', 2);
  return interruptible(false, async (signal) => {
    await assertLocal(flags.rpcUrl);
    const log = createLog('localnet', { level: 'error', pretty: false, stream: 'stderr' });
    const chain = createSandboxChain(flags.rpcUrl, LOCALNET_MINT, log);
    try {
      const balances = async () => {
        const { accounts } = await chain.rpc.getMultipleAccounts([address], {
          commitment: 'confirmed',
        });
        return { lamports: accounts[0]?.lamports ?? 0n, usdc: await chain.balance(address) };
      };
      const before = await balances();
      await chain.fund(address, { lamports: flags.sol, usdc: flags.usdc });
      let now = await balances();
      while (now.lamports < before.lamports + flags.sol || now.usdc < before.usdc + flags.usdc) {
        await pause(POLL_MS, undefined, { signal });
        now = await balances();
      }
      if (flags.json === true) printJson({ address, ...now });
      else
        print(
          `${address} has ${formatUsdcExact(now.usdc)} USDC and ${Number(now.lamports) / 1e9} SOL.`,
        );
      return 0;
    } finally {
      await chain.close();
    }
  });
}

async function assertLocal(rpcUrl: string): Promise<void> {
  try {
    await cheat(rpcUrl, 'localnet_info', []);
  } catch (error) {
    throw new OperatorError(
      `There is no local chain at ${rpcUrl} ("billing localnet" or "billing sandbox" starts one): ${reasonOf(error)}`,
      1,
      { cause: error },
    );
  }
}

const reasonOf = (error: unknown) =>
  messageOf(error instanceof Error ? (error.cause ?? error) : error);
