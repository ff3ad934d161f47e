// The CSV export: Pro only, RFC 4180, formulas made harmless, streamed.
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import t from 'tap';
import { reportsOn } from '../../../src/db/postgres/reports.ts';
import { testApi, type TestApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

const header =
  'id,occurredAt,status,amountGross,platformFee,amountNet,txSignature,failureReason,attempt,planId,planName,subscriptionId,subscriptionPda,subscriberWallet,periodStart,periodEnd,externalId,metadata,amountRefunded,further,ownIdsFrom,creditSpent,amountCredited';

async function pro(api: TestApi) {
  const merchant = await api.merchant();
  await api.sql`update merchants set tier = 'pro' where id = ${merchant.merchantId}`;
  return { ...merchant, path: `/merchant/apps/${merchant.appId}/transactions/export` };
}

void t.test(
  'a Free merchant gets 403, also for an unknown app; a Pro merchant gets text/csv',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const path = `/merchant/apps/${merchant.appId}/transactions/export`;
    t.match(await api.call('GET', path, { token: merchant.key }), {
      status: 403,
      body: { success: false, data: null, error: { code: 'FORBIDDEN' } },
    });
    await api.sql`update merchants set tier = 'pro'`;
    const exported = await api.call('GET', path, { token: merchant.key });
    t.match(exported, {
      status: 200,
      headers: {
        'content-type': 'text/csv; charset=utf-8',
        'content-disposition': /^attachment; filename="/,
      },
    });
    t.equal(exported.text, `${header}\r\n`, 'a header line, and CRLF');
    const other = await api.merchant();
    t.equal(
      (
        await api.call('GET', `/merchant/apps/${other.appId}/transactions/export`, {
          token: merchant.key,
        })
      ).status,
      403,
    );
    t.equal(
      (
        await api.call(
          'GET',
          `/merchant/apps/01999999-0000-7000-8000-000000000000/transactions/export`,
          { token: merchant.key },
        )
      ).status,
      404,
    );
    t.equal((await api.call('GET', `${path}?limit=5`, { token: merchant.key })).status, 400);
  },
);

void t.test('cells are quoted as in RFC 4180, and formulas are escaped', async (t) => {
  const api = await testApi(t);
  const merchant = await pro(api);
  const names = [
    '=1+1',
    '+1',
    '-1',
    '@SUM(A1)',
    '\tx',
    'plain',
    'comma, "quoted"',
    'ünïcödé 💶',
    '=HYPERLINK("http://evil.test","x")',
  ];
  for (const [n, name] of names.entries()) {
    const planId = await insertPlan(api.sql, merchant, { name });
    const id = await insertSubscription(api.sql, { appId: merchant.appId, planId });
    await insertPayment(api.sql, id, `2026-01-0${n + 1}T00:00:00Z`);
  }
  const { text } = await api.call('GET', merchant.path, { token: merchant.key });
  const lines = text.split('\r\n').slice(1, -1).reverse();
  t.equal(lines.length, names.length);
  const shown = [
    "'=1+1",
    "'+1",
    "'-1",
    "'@SUM(A1)",
    "'\tx",
    'plain',
    '"comma, ""quoted"""',
    'ünïcödé 💶',
    `"'=HYPERLINK(""http://evil.test"",""x"")"`,
  ];
  for (const [n, cell] of shown.entries())
    t.ok(lines[n]!.includes(`,${cell},`), `${cell} in ${lines[n]!}`);
  t.match(lines[0], /^[0-9a-f-]{36},2026-01-01T00:00:00\.000Z,succeeded,10000000,100000,9900000,/);
});

void t.test('with bom=1 the export begins with a byte order mark, for spreadsheets', async (t) => {
  const api = await testApi(t);
  const { key: token, path } = await pro(api);
  t.equal((await api.call('GET', `${path}?bom=1`, { token })).text, `\uFEFF${header}\r\n`);
  for (const plain of [path, `${path}?bom=0`])
    t.equal((await api.call('GET', plain, { token })).text, `${header}\r\n`);
  t.match(await api.call('GET', `${path}?bom=yes`, { token }), {
    status: 400,
    body: { error: { details: [{ path: 'bom' }] } },
  });
});

void t.test(
  'the export has every row of the list, in its order and under its filters, over many pages',
  async (t) => {
    const api = await testApi(t);
    const merchant = await pro(api);
    const subscription = await insertSubscription(api.sql, {
      appId: merchant.appId,
      planId: await insertPlan(api.sql, merchant),
    });
    await api.sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
      platform_fee, amount_net, tx_signature, occurred_at)
    select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', at, at + interval '1 hour', 100, 1, 99, 'signature' || n, at
    from subscriptions, lateral (select n, timestamptz '2026-01-01' + (n / 2) * interval '1 hour' as at from generate_series(1, 3500) as n) as made
    where id = ${subscription} on conflict do nothing`;
    const rows = await api.sql<
      { id: string }[]
    >`select id from payments where occurred_at >= '2026-01-02' order by occurred_at desc, id desc`;
    t.ok(rows.length > 1500);
    const { text } = await api.call('GET', `${merchant.path}?since=2026-01-02&status=succeeded`, {
      token: merchant.key,
    });
    t.same(
      text
        .split('\r\n')
        .slice(1, -1)
        .map((line) => line.split(',', 1)[0]),
      rows.map(({ id }) => id),
    );
  },
);

void t.test(
  'the export is streamed: rows are only read as fast as the client reads them',
  async (t) => {
    const api = await testApi(t);
    const merchant = await pro(api);
    const subscription = await insertSubscription(api.sql, {
      appId: merchant.appId,
      planId: await insertPlan(api.sql, merchant),
    });
    await api.sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
      platform_fee, amount_net, tx_signature, occurred_at)
    select app_id, plan_id, id, subscription_pda, subscriber_wallet, 'succeeded', at, at + interval '1 hour', 100, 1, 99, 'signature' || n, at
    from subscriptions, lateral (select n, timestamptz '2020-01-01' + n * interval '1 hour' as at from generate_series(1, 40000) as n) as made
    where id = ${subscription}`;
    let pages = 0;
    const { sql } = api;
    const counting = new Proxy(sql, {
      apply(target, self, [strings, ...values]: [TemplateStringsArray, ...unknown[]]) {
        if (strings.join('').includes('plan_name')) pages += 1;
        return Reflect.apply(target, self, [strings, ...values]) as unknown;
      },
    });
    api.deps.reports = reportsOn(counting, false);
    const origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
    const response = await fetch(`${origin}${merchant.path}`, {
      headers: { authorization: `Bearer ${merchant.key}` },
    });
    const reader = response.body!.getReader();
    await reader.read();
    // Rows that the client has not read stay in Postgres, except those in the buffers of sockets
    // and streams.
    const settled = await quiet(() => pages);
    t.ok(
      settled > 0 && settled < 175,
      `${settled} of 200 pages were read for a client that took one chunk`,
    );
    const second = await api.call('GET', merchant.path, { token: merchant.key });
    t.match(second, { status: 429, headers: { 'retry-after': '10' } }, 'one export at a time');
    await reader.cancel();
    t.equal(await quiet(() => pages), settled, 'nothing more is read for a client that has gone');
    const url = `${merchant.path}?until=2020-01-02`;
    t.equal((await api.call('GET', url, { token: merchant.key })).status, 200);
  },
);

/** The count once it has not moved for three seconds. */
async function quiet(count: () => number): Promise<number> {
  for (;;) {
    const before = count();
    await new Promise((resolve) => setTimeout(resolve, 3000));
    if (count() === before) return before;
  }
}

void t.test('a part of a name after a semicolon is escaped as well', async (t) => {
  const api = await testApi(t);
  const merchant = await pro(api);
  const planId = await insertPlan(api.sql, merchant);
  await api.sql`update plans set name = 'Tea;=1+1; @x;plain' where id = ${planId}`;
  const subscription = await insertSubscription(api.sql, { appId: merchant.appId, planId });
  await insertPayment(api.sql, subscription, '2026-01-01');
  const { text } = await api.call('GET', merchant.path, { token: merchant.key });
  t.match(text, ",Tea;'=1+1;' @x;plain,");
});

void t.test(
  'a client that disconnects while its app is read does not block the next export',
  async (t) => {
    const api = await testApi(t);
    const merchant = await pro(api);
    const origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
    const headers = { authorization: `Bearer ${merchant.key}` };
    const leaving = new AbortController();
    await api.sql.begin(async (tx) => {
      await tx`lock table apps in access exclusive mode`;
      const responses = once(api.app.server, 'request');
      const left = fetch(`${origin}${merchant.path}`, { headers, signal: leaving.signal });
      const [, response] = (await responses) as [unknown, ServerResponse];
      const closed = once(response, 'close');
      for (let waiting = 0; waiting === 0;)
        waiting = (await tx`select from pg_locks where relation = 'apps'::regclass and not granted`)
          .length;
      leaving.abort();
      await t.rejects(left);
      await closed;
    });
    // The abandoned request continues for a moment.
    let status = 0;
    for (let tries = 0; tries < 50 && status !== 200; tries += 1)
      ({ status } = await api.call('GET', merchant.path, { token: merchant.key }));
    t.equal(status, 200);
  },
);

void t.test('HEAD of the export responds 404, because it would read every row', async (t) => {
  const api = await testApi(t);
  const merchant = await pro(api);
  t.match(await api.call('HEAD', merchant.path, { token: merchant.key }), { status: 404 });
});
