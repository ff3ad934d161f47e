// Three keepers and three serves as processes: each kind keeps one budget. Here
// the other side counts; test/daemon/rate-share.test.ts shows that shares never exceed a budget.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { startStage } from '../fixtures/billing.ts';
import { type DaemonName, stageEnv, startReady } from '../fixtures/daemons.ts';

/** Counts the requests to an RPC URL by their kind, and passes them on. */
async function startCounter(t: Test, rpcUrl: string) {
  const times: Record<'reads' | 'sends' | 'serve', number[]> = { reads: [], sends: [], serve: [] };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks);
      const isSend = body.includes('"sendTransaction"');
      const kind = request.url === '/serve' ? 'serve' : isSend ? 'sends' : 'reads';
      times[kind].push(performance.now());
      fetch(rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
        .then(async (answer) => response.writeHead(answer.status).end(await answer.text()))
        .catch(() => response.destroy());
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, times };
}

const SECONDS = 5;

/**
 * The most requests within five seconds. A busy machine sees some of the second before late, so the
 * limit of a check is that of six seconds.
 */
function busiest(times: readonly number[]): number {
  let [most, from] = [0, 0];
  for (const [at, time] of times.entries()) {
    while ((times[from] ?? time) < time - SECONDS * 1000) from += 1;
    most = Math.max(most, at - from + 1);
  }
  return most;
}

void t.test('keepers and serves at one RPC provider each stay within their own rate', async (t) => {
  const stage = await startStage(t);
  const counter = await startCounter(t, stage.net.rpcUrl);
  const rates = { reads: 30, sends: 6, serve: 9 };
  const env = {
    ...stageEnv(stage),
    SOLANA_RPC_RATE: String(rates.reads),
    SOLANA_SEND_RATE: String(rates.sends),
    SOLANA_SERVE_RATE: String(rates.serve),
    SOLANA_TRANSACTION_VERSION: 'legacy',
  };
  const plan = await stage.plan();
  const subscriptions = await Promise.all(Array.from({ length: 24 }, () => stage.subscriber(plan)));
  const three = (daemon: DaemonName, path: string) =>
    Promise.all(
      Array.from({ length: 3 }, () =>
        startReady(t, daemon, { ...env, SOLANA_RPC_URL: `${counter.url}${path}` }),
      ),
    );
  const serves = await three('serve', '/serve');
  await three('keeper', '/keeper');
  const addresses = await Promise.all(
    serves.map(async (one) => {
      const line = await one.line(/"address":.*"listening"/);
      return (JSON.parse(line) as { address: string }).address;
    }),
  );
  const offers = Array.from({ length: 30 }, async (_, index) => {
    const post = async (path: string, body: unknown, token?: string) => {
      const response = await fetch(`${addresses[index % 3] ?? ''}${path}`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
        },
        body: JSON.stringify(body),
      });
      return (await response.json()) as { data: Record<string, string> | null };
    };
    const keypair = generateKeypair();
    const wallet = keypair.address;
    const { data } = await post('/auth/nonce', { wallet, role: 'subscriber' });
    const signature = bs58.encode(keypair.sign(Buffer.from(data?.message ?? '')));
    const signed = await post('/auth/verify', { wallet, nonce: data?.nonce, signature });
    await post(`/subscriber/plans/${plan.id}/subscribe`, {}, signed.data?.token);
  });
  await Promise.all(offers);
  await stage.until('every subscription is paid', async () => {
    const [row] = await stage.sql<{ count: number }[]>`
      select count(*)::int as count from payments where status = 'succeeded'`;
    return row?.count === subscriptions.length;
  });
  for (const kind of ['reads', 'sends', 'serve'] as const) {
    const times = counter.times[kind];
    const most = busiest(times);
    t.ok(times.length > rates[kind], `${kind}: ${times.length} requests`);
    t.ok(most <= rates[kind] * (SECONDS + 1), `${kind}: ${most} in ${SECONDS} s`);
  }
  const leases = await stage.sql<{ name: string; count: number; held: number }[]>`
    select name, count(*)::int as count, sum(share)::int as held from rate_leases
    group by name order by name`;
  t.same(
    leases.map(({ name, count }) => [name, count]),
    [
      ['rpc', 3],
      ['send', 3],
      ['serve', 3],
    ],
  );
});
