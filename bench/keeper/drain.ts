// An RPC endpoint in front of the chain's endpoint. When the keeper reads a chosen wallet's token
// account, it gets the balance, and the balance then changes before the response is sent. The
// keeper therefore only learns of the change from a failed payment.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tokenAccountAddress } from '../../src/chain/program/addresses.ts';
import { LOCALNET_MINT } from '../../src/local/chain/genesis.ts';
import type { Chain } from './scene.ts';

export interface Drain {
  readonly url: string;
  /** Sets the balance of each of these wallets to `amount` when the balance is next read. */
  arm(wallets: readonly string[], amount: number): void;
  /** Returns the number of chosen wallets that have not been read yet. */
  armed(): number;
  close(): void;
}

/** Number of balances per request. An endpoint accepts bodies of up to 50 KiB. */
const AT_ONCE = 100;

/** Sets the USDC balances of wallets. Throws an Error when the chain refuses to set a balance. */
export async function setBalances(
  { post }: Pick<Chain, 'post'>,
  wallets: readonly string[],
  amount: number,
): Promise<void> {
  for (let start = 0; start < wallets.length; start += AT_ONCE) {
    const requests = wallets.slice(start, start + AT_ONCE).map((wallet, id) => ({
      jsonrpc: '2.0',
      id,
      method: 'surfnet_setTokenAccount',
      params: [wallet, LOCALNET_MINT, { amount }],
    }));
    const answer: unknown = JSON.parse(await post(JSON.stringify(requests)));
    if (!Array.isArray(answer) || answer.some((one: object) => 'error' in one))
      throw new Error(`balances were not set: ${JSON.stringify(answer).slice(0, 200)}`);
  }
}

/** Starts the endpoint. Until arm() is called, it changes no balance. */
export async function startDrain(chain: Pick<Chain, 'post'>): Promise<Drain> {
  const wallets = new Map<string, string>();
  let amount = 0;
  const server = createServer((incoming, response) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const body = Buffer.concat(chunks).toString();
      const answer = await chain.post(body);
      if (body.includes('"method":"getMultipleAccounts"')) {
        const [addresses] = (JSON.parse(body) as { params: [string[]] }).params;
        const read = addresses.filter((address) => wallets.has(address));
        const owners = read.map((address) => wallets.get(address) ?? '');
        for (const address of read) wallets.delete(address);
        await setBalances(chain, owners, amount);
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end(answer);
    })().catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arm(chosen, becomes) {
      amount = becomes;
      for (const wallet of chosen)
        wallets.set(tokenAccountAddress(wallet, LOCALNET_MINT).address, wallet);
    },
    armed: () => wallets.size,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
