// A page of any list reads a bounded number of rows for the filters that have an index, in tables
// where one merchant has half of all rows and thousands of others the rest. Asserted from EXPLAIN
// (ANALYZE, BUFFERS) of the very statements, planned both for their values and for any. PLAN_ROWS
// sets how many rows each table has: `npm run test:plans` takes two million and every combination
// of filters; this, the short form, takes every fifth and compares what each list returns with the
// rows themselves.
import t from 'tap';
import { findKeyHolders, listApiKeys } from '../../src/db/accounts/api-keys.ts';
import { listApps } from '../../src/db/accounts/apps.ts';
import { findMerchants } from '../../src/db/accounts/merchants.ts';
import { findByExternalId, findById, findByWalletPart } from '../../src/db/accounts/search.ts';
import { listDeliveries } from '../../src/db/delivering/deliveries.ts';
import { listEndpoints } from '../../src/db/delivering/endpoints.ts';
import { readFeed } from '../../src/db/delivering/event-feed.ts';
import { listEvents } from '../../src/db/delivering/events.ts';
import {
  countMatching,
  countUnsent,
  queueDeliveriesAgain,
  queueUnsent,
} from '../../src/db/delivering/replays.ts';
import { listCredits, listNewestCredits } from '../../src/db/money/credit-lists.ts';
import { anyInvoice, listInvoices } from '../../src/db/money/invoice-lists.ts';
import { anyTransaction, listTransactions } from '../../src/db/money/payments.ts';
import { listRefundsOfApp } from '../../src/db/money/refunds.ts';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { FIRST_ID, LAST_ID } from '../../src/db/postgres/ids.ts';
import { listCheckoutSessions } from '../../src/db/subscriptions/checkout-sessions.ts';
import { listCustomers, readCustomer } from '../../src/db/subscriptions/customers.ts';
import {
  listSubscriptionsOfApp,
  listSubscriptionsOfWallet,
} from '../../src/db/subscriptions/lists.ts';
import { listPlans } from '../../src/db/subscriptions/plans.ts';
import { walletPart } from '../../src/domain/accounts/search.ts';
import { everything } from '../../src/domain/outbox/replay.ts';
import { manyRows } from '../fixtures/many-rows.ts';
import { testDatabase } from '../fixtures/postgres.ts';

const rows = Number(process.env.PLAN_ROWS ?? 10_000);
const limit = 21;
const anyRefund = {
  status: null,
  subscriptionId: null,
  subscriberWallet: null,
  externalId: null,
  since: null,
  until: null,
};
const absent = '01999999-0000-7000-8000-000000000000';

interface Node {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  'Shared Hit Blocks': number;
  'Shared Read Blocks': number;
  Plans?: Node[];
}

type Mode = 'force_custom_plan' | 'force_generic_plan';

/** The plan of the statement that `ask` makes: prepared and explained, it returns no rows. */
async function planOf(
  sql: Sql,
  mode: Mode,
  ask: (handle: Sql) => PromiseLike<unknown>,
): Promise<Node> {
  let plan: Node | undefined;
  const literal = (value: Date | string | number | string[] | null): string => {
    if (value === null) return 'null';
    if (Array.isArray(value)) return `'{${value.join(',')}}'`;
    return `'${value instanceof Date ? value.toISOString() : value}'`;
  };
  type Value = Parameters<typeof literal>[0] | Part | Part[];
  /** A statement, or a part of one, as postgres.js has them: run only when it is awaited. */
  class Part {
    strings: readonly string[];
    given: Value[];
    constructor(strings: readonly string[], given: Value[]) {
      this.strings = strings;
      this.given = given;
    }
    /** Its text, with the values that it adds. */
    text(values: Parameters<typeof literal>[0][]): string {
      return this.strings.reduce((all, part, index) => {
        const value = this.given[index - 1];
        if (index === 0) return part;
        if (value instanceof Part) return `${all}${value.text(values)}${part}`;
        if (Array.isArray(value) && value[0] instanceof Part)
          return `${all}${(value as Part[]).map((one) => one.text(values)).join(' ')}${part}`;
        return `${all}$${values.push(value as null)}${part}`;
      }, '');
    }
    then(...handlers: Parameters<Promise<never[]>['then']>) {
      return run(this).then(...handlers);
    }
  }
  // An identifier comes as a string.
  const explain = (strings: readonly string[] | string, ...given: Value[]) =>
    new Part(typeof strings === 'string' ? [strings] : strings, given);
  const run = async (asked: Part): Promise<never[]> => {
    const values: Parameters<typeof literal>[0][] = [];
    const text = asked.text(values);
    await sql.unsafe(`set plan_cache_mode = ${mode}`);
    await sql.unsafe(`prepare asked as ${text}`);
    const [row] = await sql.unsafe<{ 'QUERY PLAN': [{ Plan: Node }] }[]>(
      `explain (analyze, buffers, timing off, format json) execute asked(${values.map(literal).join(',')})`,
    );
    await sql.unsafe('deallocate asked');
    plan = Object.values(row!)[0]![0].Plan;
    return [];
  };
  try {
    await ask(explain as unknown as Sql);
  } catch (error) {
    // A statement that cannot run without rows.
    if (plan === undefined) throw error;
  }
  return plan!;
}

const all = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(all)];
const taken = (node: Node) =>
  (node['Actual Rows'] +
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0)) *
  node['Actual Loops'];

/** The fault of a plan that may read at most `most` rows from tables. */
function faultsOf(plan: Node, most: number): string[] {
  const nodes = all(plan);
  // A bitmap's index scan names no relation; its heap scan does.
  const read = nodes
    .filter((node) => node['Relation Name'] !== undefined)
    .reduce((sum, node) => sum + taken(node), 0);
  const pages = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  const sorted = nodes
    .filter(({ 'Node Type': type }) => /Sort$/.test(type))
    .flatMap(({ Plans = [] }) => Plans.map(taken));
  return [
    ...nodes
      // A sequential scan of an empty partition reads nothing.
      .filter((node) => node['Node Type'] === 'Seq Scan' && taken(node) > 0)
      .map((node) => `a sequential scan of ${node['Relation Name'] ?? '?'}`),
    ...(read > most ? [`${read} rows read, ${most} at the most`] : []),
    ...sorted.filter((count) => count > most).map((count) => `a sort of ${count} rows`),
    // A row costs its own page and at most one page of the index. Each descent of an index costs a
    // few more pages.
    ...(pages > 3 * most + 80 ? [`${pages} pages read`] : []),
  ];
}

/** The scans that were run, for the report of a failure. */
function describe(plan: Node): string[] {
  return all(plan)
    .filter((node) => node['Relation Name'] !== undefined && node['Actual Loops'] > 0)
    .map(
      (node) =>
        `${node['Node Type']} of ${node['Relation Name'] ?? ''} by ${node['Index Name'] ?? '-'}: ${taken(node)} rows`,
    );
}

/** Every combination of one value of each. */
function combinations<T extends Record<string, readonly unknown[]>>(
  choices: T,
): { [K in keyof T]: T[K][number] }[] {
  return Object.entries(choices).reduce<Record<string, unknown>[]>(
    (found, [name, values]) =>
      found.flatMap((one) => values.map((value) => ({ ...one, [name]: value }))),
    [{}],
  ) as { [K in keyof T]: T[K][number] }[];
}

interface List {
  name: string;
  ask: (handle: Sql) => PromiseLike<unknown>;
  /** Maximum rows to read from tables; undefined if no index serves the filters. */
  most?: number | undefined;
  /** The expected result, computed from the rows. */
  expected?: () => string[];
}

void t.test(
  `list queries read few rows in tables of ${rows} rows`,
  { timeout: 3_000_000 },
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const many = await manyRows(sql, rows);
    // Connects as `serve` does.
    const one = connect(url, { max: 1, name: 'explain', planning: 'serve' });
    t.teardown(() => one.end());

    const { appId, endpointId, other, middle } = many;
    const first = { after: null, limit };
    const [subscription, plain] = many.subscriptions as [string, string];
    const idIn = async (table: string) =>
      (
        await sql<{ id: string }[]>`select id from ${sql(table)} where subscription_id = ${plain}`
      )[0]!.id;
    const event = await idIn('events');
    const payment = await idIn('payments');
    const invoice = await idIn('invoices');
    const [delivery] = await sql<
      { id: string }[]
    >`select id from all_deliveries where event_id = ${event}`;
    const later = new Date(middle.getTime() + 1000 * Math.ceil(rows / 10));
    const times = [
      { since: null, until: null },
      { since: middle, until: null },
      { since: null, until: middle },
      { since: middle, until: later },
    ];
    const pages = (deep: string) => [first, { after: deep, limit }];
    const plans = [null, many.plans[0]!, other.planId, absent];

    // Small tables are filtered here too, to see that each way to a list leads to the same one.
    const small = rows <= 50_000;
    interface Row extends Record<string, unknown> {
      id: string;
      at: Date;
    }
    const rowsOf = async (table: string, time: string): Promise<Row[]> =>
      small
        ? await sql<
            Row[]
          >`select *, ${sql(time)} as at from ${sql(table)} order by at desc, id desc`
        : [];
    const within = (
      found: Row[],
      filters: Record<string, unknown>,
      { since, until }: (typeof times)[number],
      { after }: { after: string | null },
    ) => {
      const start = after === null ? 0 : found.findIndex(({ id }) => id === after) + 1;
      return found
        .slice(start)
        .filter((row) =>
          Object.entries(filters).every(([name, value]) => value === null || row[name] === value),
        )
        .filter(({ at }) => (since === null || at >= since) && (until === null || at < until))
        .slice(0, limit)
        .map(({ id }) => id);
    };
    const table = {
      subscriptions: await rowsOf('subscriptions', 'created_at'),
      payments: await rowsOf('payments', 'occurred_at'),
      invoices: await rowsOf('invoices', 'drawn_up_at'),
      events: await rowsOf('events', 'created_at'),
      deliveries: await rowsOf('all_deliveries', 'created_at'),
    };

    const statusOf = <T extends string>({ status }: { status: T | null }) => ({
      status: status === null ? null : [status],
    });
    const named = (name: string, filters: object, page: { after: string | null }) =>
      `${name} ${JSON.stringify(filters)}${page.after === null ? '' : ', deep page'}`;
    const subscriptions = combinations({
      status: [null, 'active', 'past_due', 'cancelled', 'expired'],
      planId: plans,
      subscriberWallet: [null, ...many.wallets],
      time: times,
      page: pages(plain),
    }).map(({ time, page, ...filters }): List => ({
      name: named('subscriptions', { ...filters, ...time }, page),
      ask: (handle) =>
        listSubscriptionsOfApp(
          handle,
          appId,
          { externalId: null, subscriptionPda: null, ...filters, ...time, ...statusOf(filters) },
          page,
        ),
      // Each row's plan, app and merchant are read. The index of an ordinary wallet serves, not
      // of one that is everywhere.
      most:
        filters.status === null && filters.subscriberWallet !== 'everywhere'
          ? 1 + 5 * limit
          : undefined,
      expected: () => within(table.subscriptions, { appId, ...filters }, time, page),
    }));
    const transactions = combinations({
      status: [null, 'succeeded', 'failed'],
      planId: plans,
      subscriptionId: [null, subscription, plain, other.subscriptionId, absent],
      time: times,
      page: pages(payment),
    }).map(({ time, page, ...filters }): List => ({
      name: named('transactions', { ...filters, ...time }, page),
      ask: (handle) =>
        listTransactions(
          handle,
          appId,
          { ...anyTransaction, ...filters, ...time, ...statusOf(filters) },
          page,
        ),
      // Each row's plan, subscription and invoice are read; the cursor's row, and the subscription
      // that is named.
      most: filters.status === null && filters.planId === null ? 2 + 4 * limit : undefined,
      expected: () => within(table.payments, { appId, ...filters }, time, page),
    }));
    const invoices = combinations({
      state: [null, 'open', 'paid', 'void'],
      subscriptionId: [null, subscription, plain, other.subscriptionId, absent],
      time: times,
      page: pages(invoice),
    }).map(({ time, page, state, ...filters }): List => ({
      name: named('invoices', { state, ...filters, ...time }, page),
      ask: (handle) =>
        listInvoices(
          handle,
          appId,
          { ...anyInvoice, ...filters, ...time, state: state === null ? null : [state] },
          page,
        ),
      // Each row's subscription is read; the cursor's row, and the subscription that is named.
      most: state === null ? 2 + 2 * limit : undefined,
      expected: () => within(table.invoices, { appId, state, ...filters }, time, page),
    }));
    const deliveries = combinations({
      // The filters that an index serves.
      status: [null, 'pending', 'failed', 'cancelled'] as const,
      type: [null],
      time: times,
      page: pages(delivery!.id),
    }).map(({ time, page, ...filters }): List => ({
      name: named('deliveries', { ...filters, ...time }, page),
      ask: (handle) =>
        listDeliveries(handle, endpointId, { ...filters, ...time, ...statusOf(filters) }, page),
      most: 1 + limit,
      expected: () =>
        within(
          table.deliveries,
          { endpointId, status: filters.status, eventType: filters.type },
          time,
          page,
        ),
    }));
    const events = combinations({ type: [null], time: times, page: pages(event) }).map(
      ({ time, page, type }): List => ({
        name: named('events', { type, ...time }, page),
        ask: (handle) => listEvents(handle, appId, { type, subscriptionId: null, ...time }, page),
        most: 1 + limit,
        expected: () => within(table.events, { appId, type }, time, page),
      }),
    );

    const [deepApp] = await sql<
      { id: string }[]
    >`select id from apps where merchant_id = ${many.merchantId} order by id limit 1 offset ${rows / 10}`;
    const [deepKey] = await sql<
      { id: string }[]
    >`select id from api_keys where merchant_id = ${many.merchantId} order by id limit 1 offset ${rows / 10}`;
    const [deepSession] = await sql<
      { id: string }[]
    >`select id from checkout_sessions where app_id = ${appId} order by id limit 1 offset ${rows / 10}`;
    const [deepPlan] = await sql<
      { id: string }[]
    >`select id from plans where app_id = ${appId} order by id limit 1 offset ${rows / 10}`;
    const [deepCredit] = await sql<{ id: string }[]>`
      select id from credits where customer_id = ${many.customerIds[0]!} order by id
      limit 1 offset ${Math.floor(rows / 100)}`;
    const plainLists = [
      ...[first, { after: deepApp!.id, limit }].map((page): List => ({
        name: named('apps', {}, page),
        ask: (handle) => listApps(handle, many.merchantId, page),
        most: limit,
      })),
      ...[first, { after: deepKey!.id, limit }].map((page): List => ({
        name: named('API keys', {}, page),
        ask: (handle) => listApiKeys(handle, many.merchantId, page),
        most: limit,
      })),
      // A customer's subscriptions are read, too.
      ...[
        { externalId: null, wallet: null },
        { externalId: null, wallet: many.customers[0]!.subscriberWallet },
        { externalId: many.customers[1]!.externalId, wallet: null },
      ].map((whose): List => ({
        name: named('customers', whose, first),
        ask: (handle) => listCustomers(handle, appId, whose, first),
        most: 8 * limit,
      })),
      // The subscription of each movement is read, too.
      ...[first, { after: deepCredit!.id, limit }].map((page): List => ({
        name: named('credits', {}, page),
        ask: (handle) => listCredits(handle, many.customerIds[0]!, page),
        most: 6 * limit,
      })),
      {
        name: 'credits of several customers',
        ask: (handle: Sql) => listNewestCredits(handle, many.customerIds.slice(1), limit),
        most: 6 * limit,
      },
      ...[first, { after: deepPlan!.id, limit }].map((page): List => ({
        name: named('plans', {}, page),
        ask: (handle) => listPlans(handle, appId, page),
        most: limit,
      })),
      ...[first, { after: deepSession!.id, limit }].map((page): List => ({
        name: named('checkout sessions', {}, page),
        ask: (handle) => listCheckoutSessions(handle, appId, page),
        most: limit,
      })),
      ...combinations({ wallet: many.wallets, page: pages(plain) }).map(
        ({ wallet, page }): List => ({
          name: named('subscriptions of a wallet', { wallet }, page),
          ask: (handle) => listSubscriptionsOfWallet(handle, { wallet, boundTo: null }, page),
          // One that is past due reads its last failed payment, too.
          most: 6 * limit,
        }),
      ),
      // A customer's subscriptions are read, and of each at most a page.
      ...many.customers.flatMap((whose): List[] =>
        pages(payment).flatMap((page): List[] => [
          {
            name: named('transactions of a customer', whose, page),
            ask: (handle) => listTransactions(handle, appId, { ...anyTransaction, ...whose }, page),
            most: 6 * limit,
          },
          {
            name: named('invoices of a customer', whose, page),
            ask: (handle) => listInvoices(handle, appId, { ...anyInvoice, ...whose }, page),
            most: 6 * limit,
          },
          {
            name: named('refunds of a customer', whose, page),
            ask: (handle) => listRefundsOfApp(handle, appId, { ...anyRefund, ...whose }, page),
            most: 6 * limit,
          },
          {
            name: named('a customer', whose, page),
            ask: (handle) => readCustomer(handle, appId, whose),
            most: 6 * limit,
          },
        ]),
      ),
      {
        name: 'refunds',
        ask: (handle: Sql) => listRefundsOfApp(handle, appId, anyRefund, first),
        most: limit,
      },
      {
        name: 'refunds of a subscription',
        ask: (handle: Sql) =>
          listRefundsOfApp(handle, appId, { ...anyRefund, subscriptionId: subscription }, first),
        most: 1 + limit,
      },
      // Each hit's plan is read besides; a part of a wallet may be checked in a few more rows.
      {
        name: 'a search for the start of an external id',
        ask: (handle: Sql) => findByExternalId(handle, appId, 'customer1'),
        most: 4 * limit,
      },
      {
        name: 'a search for a part of a wallet',
        ask: (handle: Sql) => findByWalletPart(handle, appId, walletPart('criber1234')!),
        most: 4 * limit,
      },
      { name: 'a search for an id', ask: (handle: Sql) => findById(handle, appId, event), most: 6 },
      { name: 'webhook endpoints', ask: (handle: Sql) => listEndpoints(handle, appId), most: 1 },
      {
        name: 'the holder of a key',
        ask: (handle: Sql) => findKeyHolders(handle, [many.keyHash.toString('hex')]),
        most: 2,
      },
      { name: 'a merchant', ask: (handle: Sql) => findMerchants(handle, [many.wallet]), most: 1 },
      {
        name: 'the event feed',
        ask: (handle: Sql) => readFeed(handle, appId, { after: FIRST_ID, bound: LAST_ID, limit }),
        most: limit,
      },
      {
        name: 'the event feed, further on',
        ask: (handle: Sql) => readFeed(handle, appId, { after: event, bound: LAST_ID, limit }),
        most: limit,
      },
    ] as List[];

    // A minute of the table. The app's endpoints are also read: a quarter as many rows as the
    // table's.
    const minute = new Date(middle.getTime() + 60_000);
    const replays = [
      { since: middle, until: minute, before: later.toISOString() },
      { since: middle, until: null, before: minute.toISOString() },
    ].flatMap(({ before, ...span }): List[] => {
      const selection = { ...everything, appId, ...span };
      const run = { cursor: null, until: before };
      const lists = Object.entries({
        counted: (handle: Sql) => countMatching(handle, selection, before),
        'counted, never sent': (handle: Sql) => countUnsent(handle, selection, before),
        queued: (handle: Sql) => queueDeliveriesAgain(handle as never, selection, run, 1000),
        'queued, never sent': (handle: Sql) => queueUnsent(handle as never, selection, run, 1000),
      });
      return lists.map(([name, ask]) => ({
        name: `a replay of a minute, ${name}, ${JSON.stringify(span)}`,
        ask,
        most: rows / 4 + 10 * 60,
      }));
    });

    for (const [name, lists] of Object.entries({
      subscriptions,
      transactions,
      invoices,
      deliveries,
      events,
      others: plainLists,
      replays,
    })) {
      const chosen = lists.filter((_, index) => !small || lists.length < 50 || index % 5 === 0);
      await t.test(`the ${chosen.length} list queries of ${name} read few rows`, async (t) => {
        for (const list of chosen) {
          for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
            if (list.most === undefined) break;
            const plan = await planOf(one, mode, list.ask);
            const faults = faultsOf(plan, list.most);
            if (faults.length > 0)
              t.fail(`${list.name}, ${mode}: ${faults.join('; ')}`, { scans: describe(plan) });
          }
          if (small && list.expected !== undefined) {
            const found = (await list.ask(sql)) as { id: string }[];
            const ids = found.map(({ id }) => id);
            const expected = list.expected();
            if (ids.join() !== expected.join()) t.same(ids, expected, list.name);
          }
        }
        t.pass('each read what it returned');
      });
    }
  },
);
