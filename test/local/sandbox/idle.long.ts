// `billing sandbox` without its play. With it: test/cli/local/sandbox.test.ts and play.long.ts.
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import bs58 from 'bs58';
import t from 'tap';
import { keypairFromSecret } from '../../../src/chain/keypair.ts';
import { addSignature } from '../../../src/chain/transactions/message.ts';
import { runShared, start } from '../../fixtures/command.ts';
import { call } from '../../fixtures/localnet.ts';
import { until } from '../../fixtures/webhooks.ts';

void t.test(
  '--json without --once prints the addresses, --no-play leaves wallets idle, SIGINT ends with 0',
  async (t) => {
    const wallets = join(t.testdir(), 'made', 'wallets');
    const running = start(t, [
      'sandbox',
      '--json',
      '--no-play',
      '--subscribers',
      '8',
      '--write-wallets',
      wallets,
    ]);
    const ready = JSON.parse(await running.line('"ready":true')) as {
      apiUrl: string;
      rpcUrl: string;
      metricsUrls: Record<string, string>;
      merchants: {
        token: string;
        apiKey: string;
        appId: string;
        planId: string;
        webhookSecret: string;
        secretKey: string;
      }[];
      subscribers: { wallet: string; secretKey: string; token: string }[];
      demo: Record<string, string>;
    };
    t.equal(ready.subscribers.length, 8);
    t.same(
      Object.keys(ready.demo).toSorted(),
      ['accountUrl', 'dashboardUrl', 'subscribeUrl', 'wallet'],
      'no key that the line need not have',
    );
    t.notMatch(JSON.stringify(ready.demo), '#');
    await t.test(
      '--write-wallets writes keypair files and an env file that only their owner can read',
      async (t) => {
        const files = await readdir(wallets);
        t.equal(files.filter((name) => name.startsWith('subscriber')).length, 8);
        for (const name of files)
          t.equal((await stat(join(wallets, name))).mode & 0o777, 0o600, name);
        const keyOf = async (name: string) =>
          bs58.encode(
            Uint8Array.from(JSON.parse(await readFile(join(wallets, name), 'utf8')) as number[]),
          );
        t.equal(await keyOf('merchant.json'), ready.merchants[0]?.secretKey);
        t.equal(await keyOf('subscriber-2.json'), ready.subscribers[1]?.secretKey);
        t.match(parseEnv(await readFile(join(wallets, 'env'), 'utf8')), {
          API: ready.apiUrl,
          RPC: ready.rpcUrl,
          APP: ready.merchants[0]?.appId,
          PLAN: ready.merchants[0]?.planId,
          SUBSCRIBER_WALLET: ready.subscribers[0]?.wallet,
          BILLING_API_URL: ready.apiUrl,
          BILLING_API_KEY: ready.merchants[0]?.apiKey,
        });
        const asked = await runShared(['deliveries', '--env-file', join(wallets, 'env')]);
        t.match(asked, { code: 0, stderr: 'No delivery matches.\n' });
      },
    );

    const [merchant] = ready.merchants;
    t.match(merchant?.webhookSecret, /^whsec_/);
    const path = `${ready.apiUrl}/merchant/apps/${merchant?.appId ?? ''}/subscriptions`;
    for (const credential of [merchant?.apiKey, merchant?.token]) {
      const response = await fetch(path, {
        headers: { authorization: `Bearer ${credential ?? ''}` },
      });
      t.equal(response.status, 200);
      t.same(await response.json(), { success: true, data: [] }, 'no wallet has subscribed');
    }
    await t.test('a sandbox transaction is still valid 15 s after it was built', async (t) => {
      const [subscriber] = ready.subscribers;
      const wallet = keypairFromSecret(bs58.decode(subscriber?.secretKey ?? ''));
      await call(ready.rpcUrl, 'localnet_faucet', wallet.address, '1000000000');
      const { data } = (await (
        await fetch(`${ready.apiUrl}/subscriber/plans/${merchant?.planId ?? ''}/subscribe`, {
          method: 'POST',
          headers: { authorization: `Bearer ${subscriber?.token ?? ''}` },
        })
      ).json()) as { data: { transaction: string } };
      const now = async () => {
        const slot = await call<number>(ready.rpcUrl, 'getSlot', { commitment: 'confirmed' });
        return call<number>(ready.rpcUrl, 'getBlockTime', slot);
      };
      const built = await now();
      await until(async () => (await now()) > built + 15);
      const signature = await call<string>(
        ready.rpcUrl,
        'sendTransaction',
        addSignature(wallet, data.transaction),
        { encoding: 'base64' },
      );
      await until(async () => {
        const { value } = await call<{ value: [{ err: unknown } | null] }>(
          ready.rpcUrl,
          'getSignatureStatuses',
          [signature],
        );
        return value[0] !== null && t.equal(value[0].err, null);
      });
    });

    const mine = await fetch(`${ready.apiUrl}/subscriber/subscriptions`, {
      headers: { authorization: `Bearer ${ready.subscribers[0]?.token ?? ''}` },
    });
    t.equal(mine.status, 200);
    for (const url of Object.values(ready.metricsUrls)) {
      // A daemon is not ready for a moment when Postgres takes seconds to answer.
      await until(async () => (await fetch(`${url}/readyz`)).status === 200);
      t.pass(url);
    }
    running.child.kill('SIGINT');
    t.equal((await running.ended).code, 0);
  },
);
