// What the local chain takes of pre-signed payments with nobody reading anything: one in a request over many connections, as a keeper sends
// them, and in batches as no RPC provider would like them.
import { atOnce, type Chain, type Plan, signPayments } from './scene.ts';

const BATCH = 32;
const BATCHES_UNDER_WAY = 4;
const SETTINGS = { encoding: 'base64', skipPreflight: true, maxRetries: 0 };

const request = (transaction: Buffer, id: number) => ({
  jsonrpc: '2.0',
  id,
  method: 'sendTransaction',
  params: [transaction.toString('base64'), SETTINGS],
});

/** Payments per second, one in each request. Throws an Error when not all of them were collected. */
export function singleLimit(chain: Chain, plan: Plan, round: number): Promise<number> {
  return timed(chain, plan, round, (transactions) => {
    const bodies = transactions.map((transaction, id) => JSON.stringify(request(transaction, id)));
    return () =>
      atOnce(bodies.length, async (number) => {
        await chain.post(bodies[number] ?? '');
      });
  });
}

/** Payments per second in batches. Throws an Error when not all of them were collected. */
export function batchLimit(chain: Chain, plan: Plan, round: number): Promise<number> {
  return timed(chain, plan, round, (transactions) => {
    const bodies: string[] = [];
    for (let start = 0; start < transactions.length; start += BATCH) {
      bodies.push(JSON.stringify(transactions.slice(start, start + BATCH).map(request)));
    }
    return async () => {
      await Promise.all(
        Array.from({ length: BATCHES_UNDER_WAY }, async () => {
          for (let body = bodies.pop(); body !== undefined; body = bodies.pop()) await chain.post(body);
        }),
      );
    };
  });
}

/** Lets a period pass and signs its payments; what `prepare` gives is timed. */
async function timed(
  chain: Chain,
  plan: Plan,
  round: number,
  prepare: (transactions: readonly Buffer[]) => () => Promise<void>,
): Promise<number> {
  await chain.pass();
  const send = prepare(await signPayments(chain, plan, round));
  const before = await chain.collected();
  const started = performance.now();
  await send();
  const seconds = (performance.now() - started) / 1000;
  const count = plan.subscribers.length;
  const collected = (await chain.collected()) - before;
  if (collected !== count) throw new Error(`${collected} of ${count} payments were collected`);
  return count / seconds;
}
