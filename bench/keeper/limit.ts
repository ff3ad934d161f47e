// Measures the local chain's throughput of pre-signed payments without readers: one per request
// over many connections, as a keeper sends them, and in batches that an RPC provider would not
// accept.
import { atOnce, type Chain, type Plan, signPayments, type Subscriber } from './scene.ts';

/** A blockhash lives for 150 blocks, signing included: here a minute. */
export const LIMIT_BLOCK_MS = 400;
const AT_A_TIME = 1000;
/** Payments of the round in batches. */
const IN_BATCHES = 4000;
const BATCH = 32;
const BATCHES_UNDER_WAY = 4;
const SETTINGS = { encoding: 'base64', skipPreflight: true, maxRetries: 0 };

const request = (transaction: Buffer, id: number) => ({
  jsonrpc: '2.0',
  id,
  method: 'sendTransaction',
  params: [transaction.toString('base64'), SETTINGS],
});

/**
 * Payments per second of all the plan's subscribers, one in each request. Throws an Error when not
 * all of them were collected.
 */
export function singleLimit(chain: Chain, plan: Plan, round: number): Promise<number> {
  return timed(chain, plan.subscribers, plan, round, (transactions) => {
    const bodies = transactions.map((transaction, id) => JSON.stringify(request(transaction, id)));
    return () =>
      atOnce(bodies.length, async (number) => {
        await chain.post(bodies[number] ?? '');
      });
  });
}

/**
 * Payments per second in batches, of some of the subscribers. Throws an Error when not all of them
 * were collected.
 */
export function batchLimit(chain: Chain, plan: Plan, round: number): Promise<number> {
  return timed(chain, plan.subscribers.slice(0, IN_BATCHES), plan, round, (transactions) => {
    const bodies: string[] = [];
    for (let start = 0; start < transactions.length; start += BATCH) {
      bodies.push(JSON.stringify(transactions.slice(start, start + BATCH).map(request)));
    }
    return async () => {
      await Promise.all(
        Array.from({ length: BATCHES_UNDER_WAY }, async () => {
          for (let body = bodies.pop(); body !== undefined; body = bodies.pop())
            await chain.post(body);
        }),
      );
    };
  });
}

/**
 * Lets a period pass, and sends its payments with `prepare`; only the time of sending counts. They
 * are signed in groups small enough to land before their blockhash expires.
 */
async function timed(
  chain: Chain,
  subscribers: readonly Subscriber[],
  plan: Plan,
  round: number,
  prepare: (transactions: readonly Buffer[]) => () => Promise<void>,
): Promise<number> {
  await chain.pass();
  const before = await chain.collected();
  let seconds = 0;
  for (let start = 0; start < subscribers.length; start += AT_A_TIME) {
    const send = prepare(
      await signPayments(chain, plan, subscribers.slice(start, start + AT_A_TIME), round),
    );
    const started = performance.now();
    await send();
    seconds += (performance.now() - started) / 1000;
  }
  const collected = (await chain.collected()) - before;
  if (collected !== subscribers.length)
    throw new Error(`${collected} of ${subscribers.length} payments were collected`);
  return subscribers.length / seconds;
}
