// The sandbox's client of the local chain. The client sends the wallets' transactions and calls the
// RPC methods that only a local chain has (time travel, faucet).
import { tokenAccountIn } from '../../chain/program/accounts.ts';
import { tokenAccountAddress } from '../../chain/program/addresses.ts';
import { createRpc } from '../../chain/rpc/client.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { OperatorError } from '../../errors.ts';
import type { Log } from '../../log.ts';

export interface SandboxChain {
  rpc: Rpc;
  /** Returns the time of the newest confirmed block in Unix seconds. */
  now(): Promise<bigint>;
  /**
   * Moves the chain's clock forward to `seconds`. Resolves when a block at or after `seconds` is
   * confirmed.
   */
  travelTo(seconds: bigint): Promise<void>;
  /**
   * Gives a wallet lamports and base units of USDC. The wallet pays its transaction fees with the
   * lamports.
   */
  fund(owner: string, amounts: { lamports?: bigint; usdc?: bigint }): Promise<void>;
  /** Sets the time between blocks in milliseconds, beginning with the next block. */
  setBlockTime(ms: number): Promise<void>;
  /** Returns the USDC balance of a wallet in base units. */
  balance(owner: string): Promise<bigint>;
  /**
   * Sends a signed transaction in base64. Resolves with the transaction's signature when the
   * transaction is confirmed. Throws an OperatorError when the transaction fails or is not
   * confirmed within 20 s.
   */
  submit(transaction: string): Promise<string>;
  close(): Promise<void>;
}

/** Calls an RPC method that only a local chain has. Throws an OperatorError when the call fails. */
export async function cheat(url: string, method: string, params: unknown[]): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const { error } = (await response.json()) as { error?: { message: string } };
  if (error !== undefined)
    throw new OperatorError(`The local chain refused ${method}: ${error.message}`);
}

/** Connects to the local chain at `url`. `mint` is the address of the chain's USDC mint. */
export function createSandboxChain(url: string, mint: string, log: Log): SandboxChain {
  const rpc = createRpc({ urls: [url], log });

  const now = async () => (await rpc.getClock({ commitment: 'confirmed' })).unixTimestamp;

  const statusOf = async (signature: string) => {
    const { statuses } = await rpc.getSignatureStatuses([signature]);
    return statuses[0] ?? null;
  };

  return {
    rpc,
    now,
    async travelTo(seconds) {
      await cheat(url, 'surfnet_timeTravel', [{ absoluteTimestamp: Number(seconds) * 1000 }]);
      // The daemons read the confirmed state, which is a block or two behind the newest state. The
      // wait ends when the confirmed state has reached the new time.
      while ((await now()) < seconds) await new Promise((resolve) => setTimeout(resolve, 20));
    },
    async fund(owner, { lamports = 0n, usdc = 0n }) {
      if (lamports > 0n) await cheat(url, 'requestAirdrop', [owner, Number(lamports)]);
      if (usdc > 0n) await cheat(url, 'localnet_faucet', [owner, usdc.toString()]);
    },
    setBlockTime: (ms) => cheat(url, 'localnet_setBlockTime', [ms]),
    async balance(owner) {
      const { accounts } = await rpc.getMultipleAccounts(
        [tokenAccountAddress(owner, mint).address],
        { commitment: 'confirmed' },
      );
      return tokenAccountIn(accounts[0] ?? null)?.amount ?? 0n;
    },
    async submit(transaction) {
      const bytes = Buffer.from(transaction, 'base64');
      const signature = await rpc.sendTransaction(bytes);
      const deadline = Date.now() + 20_000;
      while (Date.now() < deadline) {
        const status = await statusOf(signature);
        if (status?.err !== undefined && status.err !== null) {
          throw new OperatorError(
            `A wallet's transaction ${signature} failed: ${JSON.stringify(status.err)}`,
          );
        }
        if (status !== null && status.commitment !== 'processed') return signature;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      throw new OperatorError(`A wallet's transaction ${signature} was not confirmed within 20 s.`);
    },
    close: () => rpc.close(),
  };
}
