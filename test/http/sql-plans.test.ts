// Issue 4: every list reads only what it returns, in tables where one merchant has half of all rows and thousands of others the rest. Asserted
// from EXPLAIN (ANALYZE) of the very statements. PLAN_ROWS sets how many rows each table has.
import t from 'tap';
import { dailyFigures } from '../../src/db/analytics.ts';
import { findKeyHolders, listApiKeys } from '../../src/db/api-keys.ts';
import { listApps } from '../../src/db/apps.ts';
import type { Sql } from '../../src/db/connect.ts';
import { listDeliveries } from '../../src/db/deliveries-list.ts';
import { listEvents } from '../../src/db/events-list.ts';
import { findMerchants } from '../../src/db/merchants.ts';
import { listPlans } from '../../src/db/plans.ts';
import { listSubscriptionsOfApp, listSubscriptionsOfWallet } from '../../src/db/registrations.ts';
import { subscriptionPages } from '../../src/db/subscription-pages.ts';
import { exportTransactions, listTransactionsOfApp, listTransactionsOfSubscription } from '../../src/db/transactions.ts';
import { testDatabase } from '../fixtures/postgres.ts';

const rows = Number(process.env.PLAN_ROWS ?? 100_000);
const others = Math.ceil(rows / 200);
const limit = 21;

interface Node {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  Plans?: Node[];
}

/** A handle whose statements are explained instead: what they return are their plans. */
function explaining(sql: Sql): Sql {
  return new Proxy(sql, {
    apply: (target, self, [strings, ...values]: [TemplateStringsArray, ...unknown[]]) => {
      const explained = [`explain (analyze, format json) ${strings[0] ?? ''}`, ...strings.slice(1)];
      return Reflect.apply(target, self, [Object.assign(explained, { raw: explained }), ...values]) as unknown;
    },
  });
}

const all = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(all)];

/** Rows that the scans of a plan took from the large tables and their indexes. */
function rowsRead(plan: Node): number {
  return all(plan)
    .filter(
      (node) =>
        /^(subscriptions|payments|events|deliveries)$/.test(node['Relation Name'] ?? '') &&
        /Scan$/.test(node['Node Type']) &&
        !/^(CTE|Subquery|Function|WorkTable|Bitmap Index)/.test(node['Node Type']),
    )
    .reduce(
      (sum, node) =>
        sum +
        (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)) * node['Actual Loops'],
      0,
    );
}

void t.test(`lists in tables of ${rows} rows`, { timeout: 900_000 }, async (t) => {
  const { sql } = await testDatabase(t);
  await sql`insert into merchants (wallet) select 'wallet' || n from generate_series(0, ${others}) n`;
  await sql`insert into apps (merchant_id, name) select id, 'App' from merchants`;
  await sql`insert into api_keys (merchant_id, prefix, hash) select id, 'sk_test_xxxxxx', sha256(wallet::bytea) from merchants`;
  await sql`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
    select id, 'Plan', 'pda' || id || n, n, 'owner', 'mint', 'treasury', 'puller', 100, 730, 'active', now() from apps, generate_series(1, 2) n`;
  // Half of all belong to the first app.
  await sql`
    with app as (select id, row_number() over (order by id) - 1 as n from apps), plan as (select id, app_id, chain_plan_id - 1 as n from plans)
    insert into subscriptions (app_id, plan_id, subscription_pda, subscriber_wallet, amount, period_hours, created_at, status, past_due_since)
    select app.id, plan.id, 'sub' || made.n, 'subscriber' || (made.n % ${Math.ceil(rows / 4)}), 100, 730,
      timestamptz '2026-01-01' + made.n * interval '1 second', case when made.n % 1000 = 0 then 'past_due' else 'active' end,
      case when made.n % 1000 = 0 then now() end
    from generate_series(1, ${rows}) as made (n)
      join app on app.n = case when made.n % 2 = 0 then 0 else 1 + made.n % ${others} end
      join plan on plan.app_id = app.id and plan.n = (made.n / 2) % 2`;
  await sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, period_start, period_end, amount_gross,
      platform_fee, amount_net, tx_signature, failure_reason, occurred_at)
    select app_id, plan_id, id, subscription_pda, subscriber_wallet, case when status = 'past_due' then 'failed' else 'succeeded' end, created_at,
      created_at + interval '1 hour', 100, 1, 99, id::text, case when status = 'past_due' then 'x' end, created_at
    from subscriptions`;
  await sql`alter table events disable trigger all`;
  await sql`
    insert into events (app_id, subscription_id, sequence, type, body, created_at)
    select app_id, id, 1, case when status = 'past_due' then 'payment_failed' else 'payment_success' end, '{}', created_at from subscriptions`;
  await sql`insert into webhook_endpoints (app_id, url, secret) select id, 'https://a.test/', '' from apps`;
  await sql`
    insert into deliveries (endpoint_id, event_id, status, finished_at, created_at)
    select w.id, e.id, case when e.type = 'payment_failed' then 'failed' else 'delivered' end, now(), e.created_at
    from events e join webhook_endpoints w on w.app_id = e.app_id`;
  for (const table of ['merchants', 'apps', 'api_keys', 'plans', 'subscriptions', 'payments', 'events', 'deliveries'])
    await sql`vacuum analyze ${sql(table)}`;

  const [big] = await sql<{ id: string; merchantId: string; wallet: string; hash: Buffer }[]>`
    select a.id, a.merchant_id, m.wallet, k.hash from apps a join merchants m on m.id = a.merchant_id join api_keys k on k.merchant_id = m.id order by a.id limit 1`;
  const { id: app, merchantId, wallet, hash } = big!;
  const [plan] = await sql<{ id: string }[]>`select id from plans where app_id = ${app} limit 1`;
  const [middle] = await sql<{ id: string; subscriberWallet: string }[]>`
    select id, subscriber_wallet from subscriptions where app_id = ${app} order by created_at offset ${Math.floor(rows / 4)} limit 1`;
  const [payment] = await sql<{ id: string }[]>`select id from payments where subscription_id = ${middle!.id}`;
  const [event] = await sql<{ id: string }[]>`select id from events where subscription_id = ${middle!.id}`;
  const [delivery] = await sql<{ id: string; endpointId: string }[]>`select id, endpoint_id from deliveries where event_id = ${event!.id}`;
  const endpoint = delivery!.endpointId;

  const first = { after: null, limit };
  const since = new Date(Date.UTC(2026, 0, 1) + (rows / 2) * 1000);
  const anySubscription = { status: null, planId: null, subscriberWallet: null, since: null, until: null };
  const anyPayment = { status: null, planId: null, subscriptionId: null, since: null, until: null };
  const anyDelivery = { status: null, type: null, since: null, until: null };
  const deep = (id: string) => ({ after: id, limit });
  const lists: Record<string, (handle: Sql) => PromiseLike<unknown>> = {
    'api keys': (handle) => listApiKeys(handle, merchantId, first),
    apps: (handle) => listApps(handle, merchantId, first),
    plans: (handle) => listPlans(handle, app, first),
    'key holders': (handle) => findKeyHolders(handle, [hash.toString('hex')]),
    merchants: (handle) => findMerchants(handle, [wallet]),
    'the hot page': (handle) => subscriptionPages(handle, [{ merchantId, appId: app, limit }]),
    subscriptions: (handle) => listSubscriptionsOfApp(handle, app, anySubscription, first),
    'subscriptions, deep page': (handle) => listSubscriptionsOfApp(handle, app, anySubscription, deep(middle!.id)),
    'subscriptions of a rare status': (handle) => listSubscriptionsOfApp(handle, app, { ...anySubscription, status: 'past_due' }, first),
    'subscriptions of a status there is none of': (handle) =>
      listSubscriptionsOfApp(handle, app, { ...anySubscription, status: 'expired' }, first),
    'subscriptions of a plan': (handle) => listSubscriptionsOfApp(handle, app, { ...anySubscription, planId: plan!.id }, first),
    'subscriptions of a wallet': (handle) =>
      listSubscriptionsOfApp(handle, app, { ...anySubscription, subscriberWallet: middle!.subscriberWallet }, first),
    'subscriptions since': (handle) => listSubscriptionsOfApp(handle, app, { ...anySubscription, since }, first),
    'subscriptions until': (handle) => listSubscriptionsOfApp(handle, app, { ...anySubscription, until: since }, first),
    'a wallet’s subscriptions': (handle) => listSubscriptionsOfWallet(handle, middle!.subscriberWallet, first),
    transactions: (handle) => listTransactionsOfApp(handle, app, anyPayment, first),
    'transactions, deep page': (handle) => listTransactionsOfApp(handle, app, anyPayment, deep(payment!.id)),
    'failed transactions': (handle) => listTransactionsOfApp(handle, app, { ...anyPayment, status: 'failed' }, first),
    'transactions of a plan': (handle) => listTransactionsOfApp(handle, app, { ...anyPayment, planId: plan!.id }, first),
    'transactions of a subscription': (handle) => listTransactionsOfApp(handle, app, { ...anyPayment, subscriptionId: middle!.id }, first),
    'transactions since': (handle) => listTransactionsOfApp(handle, app, { ...anyPayment, since }, first),
    'transactions until': (handle) => listTransactionsOfApp(handle, app, { ...anyPayment, until: since }, first),
    'a page of the export': (handle) => exportTransactions(handle, app, { ...anyPayment, until: since }, deep(payment!.id)),
    'a subscription’s transactions': (handle) => listTransactionsOfSubscription(handle, middle!.id, first),
    events: (handle) => listEvents(handle, app, first),
    'events, deep page': (handle) => listEvents(handle, app, deep(event!.id)),
    deliveries: (handle) => listDeliveries(handle, endpoint, anyDelivery, first),
    'deliveries, deep page': (handle) => listDeliveries(handle, endpoint, anyDelivery, deep(delivery!.id)),
    'failed deliveries': (handle) => listDeliveries(handle, endpoint, { ...anyDelivery, status: 'failed' }, first),
    'deliveries until': (handle) => listDeliveries(handle, endpoint, { ...anyDelivery, until: since }, first),
  };
  for (const [name, list] of Object.entries(lists)) {
    // The tenth run too: by then Postgres may have gone over to a plan for any values.
    for (let run = 1; run <= 10; run += 1) {
      const answer = (await list(explaining(sql))) as Record<string, [{ Plan: Node }]>[] | Record<string, [{ Plan: Node }]>;
      const [row] = [answer].flat() as Record<string, [{ Plan: Node }]>[];
      const [{ Plan: found }] = Object.values(row!)[0]!;
      const nodes = all(found);
      const bad = nodes.filter(
        (node) =>
          node['Node Type'] === 'Seq Scan' &&
          !['merchants', 'apps', 'plans', 'webhook_endpoints', 'api_keys'].includes(node['Relation Name'] ?? ''),
      );
      const read = rowsRead(found);
      if (bad.length > 0 || read > 8 * limit) {
        t.fail(`${name}, run ${run}: ${read} rows read`, { plan: JSON.stringify(found).slice(0, 3000) });
        break;
      }
      if (run === 10) t.pass(`${name}: ${read} rows read`);
    }
  }
  const began = performance.now();
  const days = await dailyFigures(sql, app, { from: new Date(Date.UTC(2026, 0, 1)), to: new Date(Date.UTC(2026, 0, 31)) });
  t.equal(days.length, 30);
  t.comment(`analytics of ${rows / 2} subscriptions: ${Math.round(performance.now() - began)} ms`);
});
