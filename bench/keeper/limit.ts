// What the local chain takes of pre-signed payments with nobody reading anything: one in a request over many connections, as a keeper sends
// them, and in batches as no RPC provider would like them.
import { atOnce, type Chain } from './scene.ts';

const BATCH = 32;
const BATCHES_UNDER_WAY = 4;
const SETTINGS = { encoding: 'base64', skipPreflight: true, maxRetries: 0 };

const request = (transaction: Buffer, id: number) => ({
  jsonrpc: '2.0',
  id,
  method: 'sendTransaction',
  params: [transaction.toString('base64'), SETTINGS],
});

/** Payments per second, one in each request. */
export async function singleLimit({ post }: Chain, transactions: readonly Buffer[]): Promise<number> {
  const bodies = transactions.map((transaction, id) => JSON.stringify(request(transaction, id)));
  const started = performance.now();
  await atOnce(bodies.length, async (number) => {
    await post(bodies[number] ?? '');
  });
  return (transactions.length * 1000) / (performance.now() - started);
}

/** Payments per second in batches. */
export async function batchLimit({ post }: Chain, transactions: readonly Buffer[]): Promise<number> {
  const bodies: string[] = [];
  for (let start = 0; start < transactions.length; start += BATCH) {
    bodies.push(JSON.stringify(transactions.slice(start, start + BATCH).map(request)));
  }
  const started = performance.now();
  await Promise.all(
    Array.from({ length: BATCHES_UNDER_WAY }, async () => {
      for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) await post(body);
    }),
  );
  return (transactions.length * 1000) / (performance.now() - started);
}
