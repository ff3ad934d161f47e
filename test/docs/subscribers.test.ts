// Imports the module of docs/subscribers.md unchanged and uses it like a page, with a signing
// wallet, a running serve and a chain.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Connection, type Keypair, type PublicKey, type Transaction } from '@solana/web3.js';
import { transform } from 'esbuild';
import t from 'tap';
import nacl from 'tweetnacl';
import { keypairFromSecret } from '../../src/chain/keypair.ts';
import { blockOf } from '../fixtures/pages.ts';
import { startChainServe } from '../fixtures/serve.ts';

interface Subscription {
  id: string;
  status: string;
  subscriptionPda: string;
}

interface Wallet {
  publicKey: PublicKey;
  signMessage(message: Uint8Array): Promise<Uint8Array>;
  signTransaction(transaction: Transaction): Promise<Transaction>;
}

/** The exports of the page's module. */
interface Page {
  signIn(api: string, wallet: Wallet): Promise<string>;
  signAndSend(connection: Connection, wallet: Wallet, transaction: string): Promise<void>;
  subscribe(
    site: { api: string; token: string; connection: Connection; wallet: Wallet },
    plan: { appId: string; planId: string },
    remember: (pda: string) => void,
  ): Promise<Subscription>;
  register(
    api: string,
    token: string,
    opened: { appId: string; planId: string; subscriptionPda: string },
  ): Promise<Subscription>;
}

function walletOf(keypair: Keypair): Wallet {
  return {
    publicKey: keypair.publicKey,
    signMessage: (message) => Promise.resolve(nacl.sign.detached(message, keypair.secretKey)),
    signTransaction(transaction) {
      transaction.partialSign(keypair);
      return Promise.resolve(transaction);
    },
  };
}

void t.test(
  'the code in docs/subscribers.md signs in, subscribes, and can repeat the registration',
  async (t) => {
    const { chain, served } = await startChainServe(t);
    const file = join(t.testdir(), 'subscribe.js');
    const { code } = await transform(await blockOf('subscribers.md', 'subscribe.ts'), {
      loader: 'ts',
    });
    await writeFile(file, code);
    const page = (await import(pathToFileURL(file).href)) as Page;
    const connection = new Connection(chain.rpcUrl, 'confirmed');
    const api = served.url;

    const selling = chain.wallet().keypair;
    const merchant = await served.merchant(keypairFromSecret(selling.secretKey));
    const update = await served.call<{ id: string; transaction: string }>(
      'POST',
      `/merchant/apps/${merchant.appId}/plans`,
      {
        token: merchant.key,
        body: { name: 'Monthly', amount: '10000000', periodHours: 730 },
      },
    );
    await page.signAndSend(connection, walletOf(selling), update.transaction);
    const plan = { appId: merchant.appId, planId: update.id };

    const wallet = walletOf(chain.wallet().keypair);
    const token = await page.signIn(api, wallet);
    const remembered: string[] = [];
    const subscription = await page.subscribe({ api, token, connection, wallet }, plan, (pda) =>
      remembered.push(pda),
    );
    t.match(subscription, { status: 'active', subscriptionPda: remembered[0] });
    const again = await page.register(api, token, { ...plan, subscriptionPda: remembered[0]! });
    t.equal(again.id, subscription.id, 'registered once');
    await t.rejects(
      page.subscribe({ api, token, connection, wallet }, plan, (pda) => remembered.push(pda)),
      {
        code: 'CONFLICT',
        message: /it is registered/,
      },
    );
    t.equal(remembered.length, 1);

    const other = walletOf(chain.wallet().keypair);
    const otherToken = await page.signIn(api, other);
    await t.rejects(page.register(api, otherToken, { ...plan, subscriptionPda: remembered[0]! }), {
      code: 'FORBIDDEN',
    });
    await t.rejects(
      page.register(api, otherToken, { ...plan, subscriptionPda: other.publicKey.toBase58() }),
      { code: 'NOT_FOUND' },
    );
  },
);
