// Measures how many pre-signed payments per second the local chain executes while nothing reads
// from it: (1) one payment per request over many connections, as a keeper sends, and (2) in batches
// that an RPC provider would refuse.
import { atOnce, type Chain, type Plan, signPayments, type Subscriber } from './scene.ts';

/**
 * A blockhash is valid for 150 blocks, here for a minute. The payments must be signed and sent in
 * this time.
 */
export const LIMIT_BLOCK_MS = 400;
const AT_A_TIME = 1000;
/** Number of payments in a round with batches. */
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
 * Returns the payments per second for all subscribers, one payment per request. Throws an Error
 * unless all payments were collected.
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
 * Returns the payments per second in batches, for some of the subscribers. Throws an Error unless
 * all their payments were collected.
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
 * Moves the clock by a period and sends the payments of this period with `prepare`. Only sending is
 * timed. Groups are signed one by one, so that each group lands before its blockhash expires.
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
