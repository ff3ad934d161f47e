// docs/contract.md, Limits: the rate limit and its consequences, and the export.
import t from 'tap';
import type { AddressInfo } from 'node:net';
import { createClient } from '../../src/client/client.ts';
import { requestsPerMinute } from '../../src/domain/tiers.ts';
import { testApi, type Answer } from '../fixtures/http.ts';
import { rulesIn } from './rules.ts';

const rule = rulesIn(t);

const api = await testApi(t, { requestsPerMinute });

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

/** A merchant with this number of requests left in a minute that ends soon. */
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
  const { token, key } = await api.merchant();
  // Signing up took three.
  const answers = await ask(token, 97);
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
  for (const caller of [token, key])
    t.match(await api.call('GET', '/merchant/profile', { token: caller }), limited);
});

rule('Requests, Pro tier | 1,000 a minute', async (t) => {
  const { token, merchantId } = await api.merchant();
  await api.sql`update merchants set tier = 'pro' where id = ${merchantId}`;
  const answers = await ask(token, 997);
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
  t.match(await api.call('GET', '/merchant/profile', { token }), limited);
});

rule('A request over the rate limit gets status 429 and a `Retry-After` header.', async (t) => {
  const began = performance.now();
  const { merchant, fresh } = await nearlySpent(1, 30);
  t.equal((await fresh.call('GET', '/merchant/profile', { token: merchant.key })).status, 200);
  for (const url of [
    '/merchant/profile',
    '/merchant/api-keys',
    `/merchant/apps/${merchant.appId}/subscriptions`,
    '/merchant/apps/x/plans',
  ]) {
    const refused = await fresh.call('GET', url, { token: merchant.token });
    t.match(refused, limited, url);
    const wait = Number(refused.headers['retry-after']);
    const passed = (performance.now() - began) / 1000;
    t.ok(
      wait >= 29 - passed && wait <= 30,
      `${wait} s, ${passed} s after the minute had 30 s left`,
    );
  }
});

rule('After a 429 the client waits for `Retry-After` and succeeds.', async (t) => {
  const { merchant, fresh } = await nearlySpent(0, 3);
  const refused = await fresh.call('GET', '/merchant/profile', { token: merchant.key });
  t.match(refused, limited);
  await fresh.app.listen({ host: '127.0.0.1', port: 0 });
  const baseUrl = `http://127.0.0.1:${(fresh.app.server.address() as AddressInfo).port}`;
  const waited: number[] = [];
  const watched: typeof fetch = async (url, init) => {
    const answer = await fetch(url, init);
    if (answer.status === 429) waited.push(Number(answer.headers.get('retry-after')));
    return answer;
  };
  const began = performance.now();
  const profile = await createClient({
    baseUrl,
    token: merchant.key,
    retries: 1,
    fetch: watched,
  }).get('/merchant/profile');
  t.equal(profile.wallet, merchant.wallet, 'it gets through');
  t.equal(waited.length, 1);
  t.ok(
    performance.now() - began >= (waited[0] ?? Infinity) * 1000 - 20,
    'after as long as it was told, no sooner',
  );
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
