// Statements of a month: equal to analytics and to their lines, as JSON, CSV and a page.
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { testApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

type Sums = Record<'gross' | 'fees' | 'net' | 'refunded' | 'netAfterRefunds', string> & {
  sponsoredLamports: string;
  payments: number;
  refunds: number;
};
type Statement = Sums & { daily: (Sums & { date: string })[] };

void t.test('a statement of a month has days and lines that equal analytics', async (t) => {
  const api = await testApi(t);
  const { sql } = api;
  const merchant = await api.merchant();
  const { appId, token } = merchant;
  const planId = await insertPlan(sql, merchant);
  const subscriptionId = await insertSubscription(sql, { appId, planId }, { externalId: '=alice' });
  const [payment] = await Promise.all([
    insertPayment(sql, subscriptionId, '2026-02-01T00:00:00Z'),
    insertPayment(sql, subscriptionId, '2026-02-28T23:59:59.999Z'),
    insertPayment(sql, subscriptionId, '2026-01-31T23:59:59.999Z'),
    insertPayment(sql, subscriptionId, '2026-03-01T00:00:00Z'),
    insertPayment(sql, subscriptionId, '2026-02-03T00:00:00Z', {
      failureReason: 'insufficient_funds',
    }),
  ]);
  await sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
      tx_signature, occurred_at)
    select ${appId}, ${payment}, ${subscriptionId}, 1000, ${randomUUID()}, 'succeeded', 'refund1',
      '2026-02-10T10:00:00Z'`;
  const [plan] = await sql<{ id: string }[]>`select id from plans where id = ${planId}`;
  const [sent] = await sql<{ id: string }[]>`
    insert into transactions (signature, bytes, last_valid_block_height)
    values (decode(repeat('07', 64), 'hex'), '\\x01', 1) returning id`;
  await sql`
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, plan_id,
      subscription_pda, transaction_id, state, fee, subscription_rent, ended_at)
    values (${randomUUID()}, 'subscribe', 'w', 'a', 's', ${plan!.id}, 'pda', ${sent!.id}, 'landed',
      10000, 2000000, '2026-02-10T09:00:00Z')`;
  const [lost] = await sql<{ id: string }[]>`
    insert into transactions (signature, bytes, last_valid_block_height)
    values (decode(repeat('08', 64), 'hex'), '\\x01', 1) returning id`;
  await sql`update sponsorships set closing_fee = 5, created_at = ended_at`;
  await sql`
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, plan_id,
      subscription_pda, transaction_id, state, reason, fee, created_at, ended_at)
    values (${randomUUID()}, 'cancel', 'w', 'a', 's', ${plan!.id}, 'pda', ${lost!.id}, 'failed',
      'x', 700, '2026-02-10T09:30:00Z', '2026-02-10T09:30:00Z')`;
  const path = `/merchant/apps/${appId}/statements/2026-02`;
  const read = await api.call<Statement>('GET', path, { token });
  t.equal(read.status, 200);
  const { daily, ...whole } = read.body.data;
  t.match(whole, { payments: 2, refunds: 1, refunded: '1000', sponsoredLamports: '2010705' });
  t.equal(BigInt(whole.net) - 1000n, BigInt(whole.netAfterRefunds));
  t.equal(daily.length, 28);
  t.match(daily[9], { date: '2026-02-10', gross: '0', refunded: '1000', netAfterRefunds: '-1000' });
  const analytics = await api.call<
    Statement & { sponsored: { lamportsFees: string; lamportsRent: string } }
  >('GET', `/merchant/apps/${appId}/analytics?from=2026-02-01&to=2026-03-01`, { token });
  const { lamportsFees, lamportsRent } = analytics.body.data.sponsored;
  const cost = BigInt(lamportsFees) + BigInt(lamportsRent);
  t.equal(whole.sponsoredLamports, String(cost), 'sponsored');
  for (const field of ['gross', 'fees', 'net', 'refunded'] as const) {
    t.equal(whole[field], analytics.body.data[field], field);
    t.same(
      daily.map((day) => day[field]),
      analytics.body.data.daily.map((day) => day[field]),
    );
  }

  const csv = await api.call('GET', `${path}/csv`, { token });
  t.equal(csv.status, 200);
  const lines = csv.text.trimEnd().split('\r\n');
  const cells = lines.slice(1).map((line) => line.split(','));
  t.same(
    cells.map((line) => [line[1], line[5], line[7]]),
    [
      ['payment', '0', '0'],
      ['sponsored', '0', '2010005'],
      ['sponsored', '0', '700'],
      ['refund', '1000', '0'],
      ['payment', '0', '0'],
    ],
    'the lines of the month, oldest first',
  );
  t.ok(
    cells.every((line) => (line[8] ?? '').length > 0),
    'each with its signature',
  );
  const sum = (index: number) =>
    cells.reduce((total, line) => total + BigInt(line[index] ?? 0), 0n);
  t.equal(String(sum(2)), whole.gross);
  t.equal(String(sum(3)), whole.fees);
  t.equal(String(sum(4)), whole.net);
  t.ok(lines[1]?.includes("'=alice"), 'no formula');

  const page = await api.call('GET', `${path}/page`, { token });
  t.match(page.headers['content-type'], /^text\/html/);
  const html = page.text;
  t.match(html, /Statement 2026-02/);
  t.equal(html.match(/<tr>/g)?.length, 1 + 1 + 28 + 1 + 5);
  t.equal(
    (await api.call('GET', `/merchant/apps/${appId}/statements/2026-13`, { token })).status,
    400,
  );
  const other = await api.merchant();
  t.equal((await api.call('GET', path, { token: other.token })).status, 403);
});

void t.test('lines within a millisecond of the end of a page are listed once', async (t) => {
  const api = await testApi(t);
  const { sql } = api;
  const merchant = await api.merchant();
  const { appId, token } = merchant;
  const planId = await insertPlan(sql, merchant);
  await sql`
    with sent as (
      insert into transactions (signature, bytes, last_valid_block_height)
      select decode(lpad(to_hex(n), 128, '0'), 'hex'), '\\x01', 1 from generate_series(1, 450) as n
      returning id, signature
    )
    insert into sponsorships (offer_id, purpose, wallet, address, sponsor, plan_id,
      subscription_pda, transaction_id, state, fee, created_at, ended_at)
    select gen_random_uuid(), 'cancel', 'w', 'a', 's', ${planId}, 'pda', id, 'landed', 1,
      '2026-02-10T09:00:00Z', '2026-02-10T09:00:00Z'::timestamptz
        + row_number() over (order by signature) * interval '1 microsecond'
    from sent`;
  const path = `/merchant/apps/${appId}/statements/2026-02`;
  const { text } = await api.call('GET', `${path}/csv`, { token });
  const ids = text
    .trimEnd()
    .split('\r\n')
    .slice(1)
    .map((line) => line.split(',').at(-1));
  t.equal(ids.length, 450);
  t.equal(new Set(ids).size, 450);
});
