// The limit: undici alone sends the same requests from memory and signs each of them.
import { randomUUID } from 'node:crypto';
import { Pool } from 'undici';
import { generateWebhookSecret } from '../../src/domain/outbox/endpoints.ts';
import { signedHeaders, signingKeys } from '../../src/webhooks/sign.ts';
import { bodyOf, now, type Receivers } from './harness.ts';

/**
 * Sends `count` requests with undici's Pool.request, alternating between the receivers' URLs.
 * Returns the requests per second.
 */
export async function sendLimit(
  receivers: Receivers,
  count: number,
  concurrency: number,
): Promise<number> {
  const keys = signingKeys(generateWebhookSecret());
  const text = bodyOf('a delivery');
  const body = Buffer.from(text);
  const pools = receivers.urls.map(
    (url) =>
      new Pool(new URL(url).origin, {
        connections: Math.ceil(concurrency / receivers.urls.length),
        headersTimeout: 5000,
        bodyTimeout: 5000,
      }),
  );
  receivers.reset();
  const started = now();
  let next = 0;
  const sendOn = async () => {
    while (next < count) {
      const pool = pools[next++ % pools.length] as Pool;
      const headers = signedHeaders([keys], randomUUID(), Math.floor(Date.now() / 1000), text);
      const answer = await pool.request({ method: 'POST', path: '/hook', headers, body });
      await answer.body.dump();
      if (answer.statusCode !== 200) throw new Error(`the receiver answered ${answer.statusCode}`);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, sendOn));
  const elapsed = now() - started;
  await Promise.all(pools.map((pool) => pool.destroy()));
  return (count / elapsed) * 1000;
}
