// Rules for every route, tested on each that the OpenAPI document has, so that a new one is tested
// too: who may call, ids that are malformed, unknown or of another merchant, bodies, and pages.
import t from 'tap';
import { generateKeypair } from '../../src/chain/keypair.ts';
import { insertUnregistered } from '../../src/db/subscriptions/unregistered.ts';
import { apiDocument, randomAddress, testApi, type Answer } from '../fixtures/http.ts';
import { png } from '../fixtures/images.ts';
import {
  grantCredit,
  insertEvent,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../fixtures/rows.ts';

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

interface Operation {
  requestBody?: { required?: boolean; content: Record<string, object> };
  parameters?: { in: string; name: string }[];
}

const missing = '01999999-0000-7000-8000-000000000000';
const json = { 'content-type': 'application/json' };
const refusal = (status: number, code: string) => ({
  status,
  body: { success: false, data: null, error: { code } },
});
const [unauthorized, forbidden, notFound] = [
  refusal(401, 'UNAUTHORIZED'),
  refusal(403, 'FORBIDDEN'),
  refusal(404, 'NOT_FOUND'),
];

/** A body that fits, of each operation that asks for one. */
const bodies: Record<string, Record<string, unknown>> = {
  'POST /merchant/apps/{appId}/checkout-sessions': { planId: missing },
  'POST /checkout/plans/{planId}/offers': { wallet: generateKeypair().address },
  'POST /checkout/offers/{offerId}/transaction': { transaction: 'AQ==' },
  'POST /subscriber/offers/{offerId}/transaction': { transaction: 'AQ==' },
  'POST /auth/nonce': { wallet: generateKeypair().address },
  'POST /auth/verify': { wallet: generateKeypair().address, nonce: 'x', signature: 'z'.repeat(88) },
  'PATCH /merchant/profile': { name: 'Ada' },
  'POST /merchant/apps': { name: 'Tea' },
  'PATCH /merchant/apps/{appId}': { name: 'Tea' },
  'POST /merchant/apps/{appId}/plans': { name: 'Monthly', amount: '1', periodHours: 730 },
  'PATCH /merchant/apps/{appId}/plans/{planId}': { name: 'Monthly' },
  'PATCH /merchant/apps/{appId}/subscriptions/{subscriptionId}': { externalId: 'c-1' },
  'POST /merchant/apps/{appId}/webhooks': { url: 'https://shop.test/' },
  'PATCH /merchant/apps/{appId}/webhooks/{webhookId}': { disabled: false },
  'POST /merchant/apps/{appId}/events/sample': { type: 'ping' },
  'POST /merchant/apps/{appId}/customers/{customerId}/credits': {
    amount: '1',
    reason: 'An outage',
  },
  'POST /subscriber/transactions': { transaction: 'AQ==' },
  'POST /subscriber/subscriptions/{subscriptionId}/change': { planId: missing, when: 'now' },
  'POST /merchant/transactions': { transaction: 'AQ==' },
  'POST /subscriber/subscriptions': {
    appId: missing,
    planId: missing,
    subscriptionPda: randomAddress(),
  },
};

/** An image that fits, of each operation that asks for one. */
const images: Record<string, Buffer> = {
  'POST /merchant/apps/{appId}/logo': png(1),
};

/** A query that fits, of each operation that asks for one. */
const queries: Record<string, string> = {
  'GET /merchant/apps/{appId}/access': '?externalId=c-1',
  'GET /merchant/apps/{appId}/customer': '?externalId=c-1',
  'GET /subscriber/subscriptions/{subscriptionId}/change': `?planId=${missing}&when=now`,
  'GET /merchant/apps/{appId}/subscriptions/{subscriptionId}/change': `?planId=${missing}&when=now`,
};

const api = await testApi(t);
const { paths } = (await apiDocument()) as unknown as {
  paths: Record<string, Record<string, Operation>>;
};
const operations = Object.entries(paths).flatMap(([path, found]) =>
  Object.entries(found).map(([verb, operation]) => {
    const method = verb.toUpperCase() as Method;
    return { method, path, operation, name: `${method} ${path}` };
  }),
);
const withJson = operations.filter(
  ({ operation }) => operation.requestBody?.content['application/json'] !== undefined,
);
const of = (prefix: string) => operations.filter(({ path }) => path.startsWith(prefix));

const subscriber = await api.signIn('subscriber');

/** A merchant with one of everything; the subscription is of the wallet. */
async function furnished(subscriberWallet: string) {
  const merchant = await api.merchant();
  await api.sql`update merchants set tier = 'pro' where id = ${merchant.merchantId}`;
  const planId = await insertPlan(api.sql, merchant);
  const subscriptionId = await insertSubscription(
    api.sql,
    { appId: merchant.appId, planId },
    { subscriberWallet },
  );
  const hook = { token: merchant.key, body: { url: 'https://shop.test/' } };
  const { body } = await api.call<{ id: string }>(
    'POST',
    `/merchant/apps/${merchant.appId}/webhooks`,
    hook,
  );
  const { eventId, deliveryId = '' } = await insertEvent(api.sql, subscriptionId);
  const keys = await api.call<{ id: string }[]>('GET', '/merchant/api-keys', {
    token: merchant.token,
  });
  const keyId = keys.body.data[0]!.id;
  const session = await api.call<{ id: string }>(
    'POST',
    `/merchant/apps/${merchant.appId}/checkout-sessions`,
    { token: merchant.key, body: { planId } },
  );
  const transactionId = await insertPayment(api.sql, subscriptionId, '2025-12-01');
  const [named] = await api.sql<[{ invoiceId: string; customerId: string }]>`
    select id as invoice_id, customer_id from invoices where subscription_id = ${subscriptionId}`;
  return {
    ...merchant,
    ids: {
      ...named,
      appId: merchant.appId,
      planId,
      subscriptionId,
      webhookId: body.data.id,
      eventId,
      deliveryId,
      transactionId,
      keyId,
      checkoutSessionId: session.body.data.id,
    },
  };
}
const mine = await furnished(subscriber.wallet);
const other = await furnished(randomAddress());

const fill = (path: string, ids: Record<string, string>) =>
  path
    .replace('{month}', '2026-01')
    .replace(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? missing);
const ask = (
  { method, name }: { method: Method; name: string },
  url: string,
  token?: string,
): Promise<Answer<unknown>> =>
  api.call<unknown>(method, `${url}${queries[name] ?? ''}`, {
    token,
    ...(bodies[name] === undefined ? {} : { body: bodies[name] }),
    ...(images[name] !== undefined && {
      payload: images[name],
      headers: { 'content-type': 'image/png' },
    }),
  });

void t.test(
  'every operation refuses callers without credentials, and with the wrong role',
  async (t) => {
    for (const operation of [...of('/merchant'), ...of('/subscriber')]) {
      const url = fill(operation.path, mine.ids);
      t.match(await ask(operation, url), unauthorized, operation.name);
      const wrong = operation.path.startsWith('/merchant')
        ? [subscriber.token]
        : [mine.token, mine.key];
      if (operation.path.startsWith('/merchant/api-keys')) wrong.push(mine.key);
      for (const token of wrong)
        t.match(await ask(operation, url, token), forbidden, operation.name);
    }
  },
);

void t.test(
  "a malformed or unknown id in a path gets 404, another merchant's row gets 403",
  async (t) => {
    const inPath = operations.filter(({ path }) => path.includes('{'));
    t.ok(inPath.length > 25);
    for (const operation of inPath) {
      const { path, name } = operation;
      const token = path.startsWith('/subscriber') ? subscriber.token : mine.token;
      const names = [...path.replace('{month}', '').matchAll(/\{(\w+)\}/g)].map(
        ([, given]) => given as keyof typeof mine.ids,
      );
      for (const parameter of names) {
        for (const id of [
          'x',
          missing.toUpperCase().replace('01', 'AB'),
          `${missing}0`,
          '%00',
          '..%2f..',
          missing,
        ])
          t.match(
            await ask(operation, fill(path, { ...mine.ids, [parameter]: id }), token),
            notFound,
            `${name} ${parameter} ${id}`,
          );
        // Objects of another app are not found below one's own app.
        if (names.includes('appId') && parameter !== 'appId')
          t.match(
            await ask(
              operation,
              fill(path, { ...mine.ids, [parameter]: other.ids[parameter] }),
              token,
            ),
            notFound,
            `${name} ${parameter}`,
          );
      }
      // Plans and checkout sessions are there for every subscriber to read, and an offer is only
      // found by its holder.
      if (!/^(\/subscriber)?\/(plans|checkout-sessions|checkout|offers)/.test(path))
        t.match(await ask(operation, fill(path, other.ids), token), forbidden, name);
    }
  },
);

void t.test(
  'a POST without a body ignores Content-Type; if a body is required, the error names the missing field',
  async (t) => {
    for (const { method, path, operation, name } of withJson) {
      const token = path.startsWith('/subscriber') ? subscriber.token : mine.token;
      const none = await api.call(method, fill(path, { ...other.ids, keyId: missing }), {
        token,
        headers: json,
      });
      if (operation.requestBody?.required === true)
        t.match(none, { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } }, name);
      else t.not(none.status, 400, name);
      t.equal(operation.requestBody?.required === true, name in bodies, name);
    }
  },
);

void t.test('an unknown field is refused with VALIDATION_ERROR and its name', async (t) => {
  for (const { method, path, name } of withJson) {
    const token = path.startsWith('/subscriber') ? subscriber.token : mine.token;
    const refused = await api.call(method, fill(path, mine.ids), {
      token,
      body: { ...bodies[name], surplus: 1 },
    });
    t.match(
      refused,
      {
        status: 400,
        body: { error: { code: 'VALIDATION_ERROR', details: [{ path: 'surplus' }] } },
      },
      name,
    );
  }
});

void t.test(
  'every list is newest first, and its pages follow cursor and Link to the end',
  async (t) => {
    const { appId, planId, subscriptionId, transactionId } = mine.ids;
    for (let n = 0; n < 4; n += 1) {
      await api.call('POST', '/merchant/apps', { token: mine.key, body: { name: `App ${n}` } });
      await api.call('POST', '/merchant/api-keys', { token: mine.token });
      await insertPlan(api.sql, mine);
      await api.sql`insert into checkout_sessions (app_id, plan_id) values (${appId}, ${planId})`;
      await insertSubscription(api.sql, { appId, planId }, { subscriberWallet: subscriber.wallet });
      await insertSubscription(api.sql, { appId, planId });
      await insertUnregistered(api.sql, {
        appId,
        planId,
        subscriptionPda: randomAddress(),
        subscriberWallet: randomAddress(),
      });
      await insertEvent(api.sql, subscriptionId);
      await insertPayment(api.sql, subscriptionId, `2026-01-0${n + 1}`);
      await grantCredit(api.sql, subscriptionId, 1n);
      await api.sql`
        insert into refunds (app_id, payment_id, subscription_id, amount, reference)
        values (${appId}, ${transactionId}, ${subscriptionId}, 1, ${randomAddress()})`;
    }
    // All but the webhook endpoints, of which an app has at most one.
    const lists = operations.filter(
      ({ path, operation }) =>
        !path.endsWith('/webhooks') && operation.parameters?.some(({ name }) => name === 'cursor'),
    );
    t.equal(lists.length, 22);
    const cursors: string[] = [];
    for (const { path, name } of lists) {
      const token = path.startsWith('/subscriber') ? subscriber.token : mine.token;
      const url = fill(path, mine.ids);
      const get = (query: string) => api.call<{ id: string }[]>('GET', `${url}${query}`, { token });
      const whole = (await get('?limit=100')).body.data.map(({ id }) => id);
      t.ok(whole.length >= 4, name);
      t.same(whole, [...whole].sort().reverse(), `${name}: newest first`);
      const seen: string[] = [];
      let next = '?limit=2';
      while (next !== '') {
        const { headers, body } = await get(next);
        seen.push(...body.data.map(({ id }) => id));
        const cursor = headers['x-next-cursor'] as string | undefined;
        t.equal(headers.link !== undefined, cursor !== undefined);
        if (cursor !== undefined) {
          cursors.push(cursor);
          t.equal(
            headers.link,
            `<http://billing.test${url}?limit=2&cursor=${encodeURIComponent(cursor)}>; rel="next"`,
          );
        }
        next = cursor === undefined ? '' : `?limit=2&cursor=${encodeURIComponent(cursor)}`;
      }
      t.same(seen, whole, name);
      for (const limit of ['0', '101', '-1', '1.5', 'x', ''])
        t.match(
          await get(`?limit=${limit}`),
          { status: 400, body: { error: { details: [{ path: 'limit' }] } } },
          `${name} limit ${limit}`,
        );
      for (const cursor of ['', 'x', missing, `${cursors.at(-1)!}x`])
        t.match(
          await get(`?cursor=${cursor}`),
          { status: 400, body: { error: { details: [{ path: 'cursor' }] } } },
          `${name} cursor ${cursor}`,
        );
    }
    for (const { path, name } of lists) {
      const token = path.startsWith('/subscriber') ? subscriber.token : mine.token;
      const answers = await Promise.all(
        cursors.map((cursor) =>
          api.call('GET', `${fill(path, mine.ids)}?cursor=${encodeURIComponent(cursor)}`, {
            token,
          }),
        ),
      );
      const own = answers.filter(({ status }) => status === 200).length;
      t.ok(own > 0 && own < cursors.length / 2, `${name} takes its own alone`);
      t.ok(
        answers.every(({ status }) => status === 200 || status === 400),
        name,
      );
    }
  },
);

void t.test(
  'the event log is filtered by type, since (inclusive) and until (exclusive)',
  async (t) => {
    const url = `/merchant/apps/${other.appId}/events`;
    const [{ createdAt }] = await api.sql<
      [{ createdAt: Date }]
    >`select created_at from events where id = ${other.ids.eventId}`;
    const [at, later] = [createdAt.toISOString(), new Date(createdAt.getTime() + 1).toISOString()];
    const found = async (query: string) =>
      (
        await api.call<{ id: string }[]>('GET', `${url}?${query}`, { token: other.key })
      ).body.data.map(({ id }) => id);
    t.same(await found('type=payment_success'), [other.ids.eventId]);
    t.same(await found('type=cancel_forced'), []);
    t.same(await found(`since=${at}`), [other.ids.eventId]);
    t.same(await found(`since=${later}`), []);
    t.same(await found(`until=${at}`), []);
    t.same(await found(`since=${at}&until=${later}&type=payment_success`), [other.ids.eventId]);
    t.equal((await api.call('GET', `${url}?type=ping`, { token: other.key })).status, 400);
  },
);
