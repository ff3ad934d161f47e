// docs/contract.md, Limits: the rate limit and its consequences, and the export.
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { createClient } from '../../src/client/client.ts';
import { requestsPerMinute } from '../../src/http/door/limits.ts';
import { testApi, type Answer } from '../fixtures/http.ts';
import { rulesIn } from './rules.ts';

const rule = rulesIn(t);

const api = await testApi(t, { requestsPerMinute });

/**
 * Moves the end of a merchant's minute away, so that it outlasts the test's requests however slow
 * the machine is.
 */
const prolong = ({ merchantId }: { merchantId: string }) => api.sql`
  update rate_budgets set ends_at = ends_at + interval '1 hour' where subject = ${`merchant:${merchantId}`}`;

/** Sends this number of requests of one merchant, partly concurrent. */
async function ask(token: string, count: number): Promise<Answer<unknown>[]> {
  const answers: Answer<unknown>[] = [];
  for (let n = 0; n < count; n += 20)
    answers.push(
      ...(await Promise.all(
        Array.from({ length: Math.min(20, count - n) }, () =>
          api.call('GET', '/merchant/profile', { token }),
        ),
      )),
    );
  return answers;
}
const limited = {
  status: 429,
  headers: { 'retry-after': /^\d+$/ },
  body: { success: false, data: null },
};

/** A merchant with this number of requests left in a window that ends in this number of seconds. */
async function nearlySpent(left: number, seconds: number) {
  const merchant = await api.merchant();
  // The part of the minute's budget that a process holds is lost with the process.
  const fresh = await testApi(t, {
    database: { sql: api.sql, url: api.databaseUrl },
    requestsPerMinute,
  });
  await api.sql`
    update rate_budgets set spent = ${requestsPerMinute.free - left}, ends_at = clock_timestamp() + ${seconds} * interval '1 second'
    where subject = ${`merchant:${merchant.merchantId}`}`;
  return { merchant, fresh };
}

rule('Requests, Free tier | 100 a minute', async (t) => {
  const { token, key, merchantId } = await api.merchant();
  await prolong({ merchantId });
  // Signing up took three.
  const answers = await ask(token, 97);
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
  for (const caller of [token, key])
    t.match(await api.call('GET', '/merchant/profile', { token: caller }), limited);
});

rule('Requests, Pro tier | 1,000 a minute', async (t) => {
  const { token, merchantId } = await api.merchant();
  await api.sql`update merchants set tier = 'pro' where id = ${merchantId}`;
  await prolong({ merchantId });
  const answers = await ask(token, 997);
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
  t.match(await api.call('GET', '/merchant/profile', { token }), limited);
});

rule('A request over the rate limit gets status 429 and a `Retry-After` header.', async (t) => {
  const { merchant, fresh } = await nearlySpent(1, 3600);
  const secondsLeft = async () => {
    const [left] = await api.sql<[{ seconds: number }]>`
      select extract(epoch from ends_at - clock_timestamp())::float8 as seconds from rate_budgets
      where subject = ${`merchant:${merchant.merchantId}`}`;
    return left.seconds;
  };
  t.equal((await fresh.call('GET', '/merchant/profile', { token: merchant.key })).status, 200);
  for (const url of [
    '/merchant/profile',
    '/merchant/api-keys',
    `/merchant/apps/${merchant.appId}/subscriptions`,
    '/merchant/apps/x/plans',
  ]) {
    const most = await secondsLeft();
    const refused = await fresh.call('GET', url, { token: merchant.token });
    const least = await secondsLeft();
    t.match(refused, limited, url);
    const wait = Number(refused.headers['retry-after']);
    t.ok(wait >= least && wait <= most + 1.1, `${wait} s when ${most} to ${least} s were left`);
  }
});

rule('After a 429 the client waits for `Retry-After` and succeeds.', async (t) => {
  const waited: number[] = [];
  const watched: typeof fetch = async (url, init) => {
    const answer = await fetch(url, init);
    if (answer.status === 429) waited.push(Number(answer.headers.get('retry-after')));
    return answer;
  };
  // A longer window where it ended before the client's first request.
  for (let seconds = 3; waited.length === 0; seconds *= 2) {
    const { merchant, fresh } = await nearlySpent(0, seconds);
    await fresh.app.listen({ host: '127.0.0.1', port: 0 });
    const baseUrl = `http://127.0.0.1:${(fresh.app.server.address() as AddressInfo).port}`;
    const client = createClient({ baseUrl, token: merchant.key, retries: 1, fetch: watched });
    const began = performance.now();
    const profile = await client.get('/merchant/profile');
    const elapsed = performance.now() - began;
    t.equal(profile.wallet, merchant.wallet, 'it gets through');
    const [told] = waited;
    if (told !== undefined)
      t.ok(elapsed >= told * 1000 - 20, 'after as long as it was told, no sooner');
  }
  t.equal(waited.length, 1);
});

rule('CSV export | Pro tier', async (t) => {
  const { key, token, appId, merchantId } = await api.merchant();
  const path = `/merchant/apps/${appId}/transactions/export`;
  for (const caller of [key, token])
    t.match(await api.call('GET', path, { token: caller }), {
      status: 403,
      body: { error: { code: 'FORBIDDEN' } },
    });
  await api.sql`update merchants set tier = 'pro' where id = ${merchantId}`;
  for (const caller of [key, token])
    t.match(await api.call('GET', path, { token: caller }), {
      status: 200,
      headers: { 'content-type': /^text\/csv/ },
    });
});
