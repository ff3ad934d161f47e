// Database rights of each daemon and of the daily `billing reconcile`. Each daemon and `reconcile`
// has its own role, named after the schema owner. For the owner billing_owner, the roles are
// billing_serve, billing_keeper, billing_dispatch and billing_reconcile.
import type { Queryable } from './connect.ts';
import { type DaemonRole, daemonRoles } from './daemon-roles.ts';
import {
  amounts,
  installationTerms,
  notRefunded,
  offerTerms,
  planTerms,
  refundTerms,
  sessionTerms,
  signedColumns,
  sponsorshipTerms,
  subscriptionTerms,
  unregisteredTerms,
  workOfKeepers,
} from './fixed-columns.ts';

interface Rights {
  select: readonly string[];
  insert: readonly string[];
  /** Tables into which the role may insert, each with the columns that must keep their defaults. */
  insertExcept?: Readonly<Record<string, readonly string[]>>;
  delete: readonly string[];
  /** Tables that the role may update, each with the columns that it must not update. */
  update: Readonly<Record<string, readonly string[]>>;
  execute?: readonly string[];
}

/** Rights that every daemon needs for the startup checks and the heartbeat. */
const running = {
  select: ['schema_migrations', 'installation', 'daemons'],
  insert: ['installation', 'daemons'],
  delete: ['daemons'],
  update: { daemons: ['id', 'name'] },
};

/** The columns of merchants that `serve` never writes. */
const merchantTerms = ['tier', 'fee_bps', 'approved_at', 'sponsoring_lamports'];

/** The columns of rate_leases that identify a holder. No role may update these columns. */
const rateHolder = ['name', 'holder', 'place', 'pid'];

/**
 * Rights of each role. test/db/postgres/roles.test.ts checks that every table of the schema is
 * listed.
 */
export const rights: Readonly<Record<DaemonRole, Rights>> = {
  serve: {
    select: [
      ...running.select,
      'merchants',
      'api_keys',
      'auth_nonces',
      'apps',
      'plans',
      'customers',
      'subscriptions',
      'subscription_work',
      'searched_wallets',
      'payments',
      'refunds',
      'transactions',
      'payment_attempts',
      'events',
      'webhook_endpoints',
      'delivery_queue',
      'deliveries',
      'earlier_attempts',
      'all_deliveries',
      'delivery_attempts',
      'idempotency_keys',
      'rate_budgets',
      'rate_leases',
      'sample_events',
      'event_readers',
      'offers',
      'checkout_sessions',
      'replays',
      'suspensions',
      'endpoint_health',
      'endpoint_hours',
      'unregistered_subscriptions',
      'sponsorships',
      'fees_brought',
      'app_logos',
      'receipt_links',
      'receipt_details',
      'mails',
      'mail_addresses',
    ],
    insert: [
      ...running.insert,
      'suspensions',
      'app_logos',
      'receipt_details',
      'auth_nonces',
      'apps',
      'plans',
      'subscriptions',
      'subscription_work',
      'searched_wallets',
      'events',
      'webhook_endpoints',
      'delivery_queue',
      'deliveries',
      'idempotency_keys',
      'rate_budgets',
      'rate_leases',
      'sample_events',
      'event_readers',
      'checkout_sessions',
      'refunds',
      'replays',
    ],
    insertExcept: {
      merchants: merchantTerms,
      api_keys: ['created_at', 'last_used_at', 'revoked_at'],
      offers: ['created_at', 'registered_at', 'look_at', ...signedColumns],
    },
    delete: [
      ...running.delete,
      'auth_nonces',
      'delivery_queue',
      'idempotency_keys',
      'rate_budgets',
      'rate_leases',
      'sample_events',
      'event_readers',
      'offers',
      'checkout_sessions',
      'unregistered_subscriptions',
      'app_logos',
      'receipt_details',
    ],
    update: {
      ...running.update,
      merchants: ['id', 'wallet', ...merchantTerms],
      mail_addresses: ['mailbox', 'token', 'created_at'],
      api_keys: ['id', 'merchant_id', 'prefix', 'hash', 'created_at'],
      apps: ['id', 'merchant_id'],
      app_logos: ['app_id'],
      plans: planTerms,
      payments: [...notRefunded, 'amount_refunded'],
      subscriptions: [
        ...subscriptionTerms,
        ...['charged_from', 'period_pulled', 'pullable', 'pulled_through', 'resumed_at'],
      ],
      subscription_work: workOfKeepers,
      webhook_endpoints: ['id', 'app_id', 'url'],
      delivery_queue: ['id', 'endpoint_id', 'event_id', 'event_type'],
      idempotency_keys: ['scope', 'key'],
      rate_budgets: [],
      rate_leases: rateHolder,
      event_readers: ['id', 'app_id'],
      offers: [...offerTerms, 'look_at'],
      checkout_sessions: sessionTerms,
      replays: ['id', 'selection', 'until'],
      receipt_links: ['single', 'key'],
      receipt_details: ['subscription_id', 'since'],
    },
    execute: ['oldest_writer()'],
  },
  keeper: {
    select: [
      ...running.select,
      'merchants',
      'apps',
      'plans',
      'customers',
      'subscriptions',
      'subscription_work',
      'searched_wallets',
      'transactions',
      'payment_attempts',
      'payments',
      'refunds',
      'events',
      'sweeps',
      'last_reconciliation',
      'webhook_endpoints',
      'delivery_queue',
      'collection_holds',
      'suspensions',
      'admin_actions',
      'offers',
      'checkout_sessions',
      'unregistered_subscriptions',
      'sponsorships',
      'merchant_fees',
      'fees_counted',
      'fees_brought',
      'rate_leases',
      'receipt_links',
    ],
    insert: [
      ...running.insert,
      'sponsorships',
      'merchant_fees',
      'subscriptions',
      'subscription_work',
      'searched_wallets',
      'unregistered_subscriptions',
      'transactions',
      'payment_attempts',
      'payments',
      'refunds',
      'events',
      'delivery_queue',
      'collection_holds',
      'admin_actions',
      'rate_leases',
    ],
    delete: [...running.delete, 'unregistered_subscriptions', 'rate_leases'],
    update: {
      ...running.update,
      // The keeper writes two columns of an offer: registered_at and look_at.
      offers: [...offerTerms, ...signedColumns, 'message'],
      unregistered_subscriptions: unregisteredTerms,
      checkout_sessions: sessionTerms,
      installation: installationTerms,
      collection_holds: ['id', 'merchant_id', 'plan_id', 'reason', 'held_at'],
      plans: planTerms,
      subscriptions: subscriptionTerms,
      subscription_work: ['subscription_id', 'app_id'],
      transactions: ['id', 'signature'],
      payments: notRefunded,
      refunds: refundTerms,
      payment_attempts: ['id', 'subscription_id', 'subscription_pda', ...amounts],
      sweeps: ['name'],
      sponsorships: sponsorshipTerms,
      merchant_fees: ['merchant_id'],
      fees_counted: ['single'],
      rate_leases: rateHolder,
    },
  },
  dispatch: {
    select: [
      ...running.select,
      'events',
      'events_default',
      'webhook_endpoints',
      'delivery_queue',
      'deliveries',
      'deliveries_default',
      'earlier_attempts',
      'earlier_attempts_default',
      'delivery_attempts',
      'endpoint_health',
      'endpoint_hours',
      'rate_leases',
      'mails',
      'mail_addresses',
      'suspensions',
      'merchants',
      'apps',
      'plans',
    ],
    insert: [
      'daemons',
      'mails',
      'mail_addresses',
      'rate_leases',
      'events',
      'deliveries',
      'earlier_attempts',
      'endpoint_health',
      'endpoint_hours',
    ],
    delete: [...running.delete, 'delivery_queue', 'endpoint_hours', 'rate_leases', 'mails'],
    update: {
      ...running.update,
      webhook_endpoints: [
        'id',
        'app_id',
        'url',
        'secret',
        'previous_secret',
        'rotated_at',
        'previous_since',
        'previous_until',
        'extra_events',
        'created_at',
        'deleted_at',
        'enabled_at',
        'headers',
        'header_names',
        'max_per_second',
        'settings_at',
      ],
      mails: [
        'id',
        'merchant_id',
        'kind',
        'about',
        'day',
        'data',
        'created_at',
        'mailbox',
        'token',
      ],
      endpoint_health: ['endpoint_id'],
      rate_leases: rateHolder,
      endpoint_hours: ['endpoint_id', 'hour'],
      delivery_queue: ['id', 'endpoint_id', 'event_id', 'event_type'],
    },
    execute: ['make_months(int)', 'drop_month(text, int)', 'queue_digests(int)'],
  },
  // These rights suffice for `billing reconcile` without --repair. A repair needs the rights of the
  // schema owner.
  reconcile: {
    select: [
      'schema_migrations',
      'installation',
      'plans',
      'subscriptions',
      'subscription_work',
      'payments',
      'refunds',
      'sponsorships',
      'transactions',
      'payment_attempts',
      'last_reconciliation',
      'rate_leases',
    ],
    insert: ['last_reconciliation', 'rate_leases'],
    delete: ['rate_leases'],
    update: { last_reconciliation: ['single'], rate_leases: rateHolder },
  },
};

/**
 * Grants each existing daemon role exactly the rights above and revokes all others. Returns the
 * names of the roles.
 */
export async function grantRights(sql: Queryable): Promise<string[]> {
  const names = await roleNames(sql);
  const found = await sql<{ name: string }[]>`
    select rolname as name from pg_roles where rolname = any(${Object.values(names)})`;
  const granted: string[] = [];
  for (const daemon of daemonRoles) {
    const role = names[daemon];
    if (!found.some(({ name }) => name === role)) continue;
    await sql.unsafe(await grants(sql, quoted(role), rights[daemon]));
    granted.push(role);
  }
  return granted;
}

/** Returns one multi-statement string, which Postgres runs as one transaction. */
async function grants(sql: Queryable, role: string, its: Rights): Promise<string> {
  const byColumn = (right: 'insert' | 'update', tables: Rights['update']) =>
    Object.entries(tables).map(async ([table, fixed]) => {
      const [row] = await sql<{ columns: string }[]>`
        select string_agg(quote_ident(attname), ', ') as columns from pg_attribute
        where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
          and attname <> all(${[...fixed]})`;
      return `grant ${right} (${row?.columns ?? ''}) on ${table} to ${role}`;
    });
  const columns = await Promise.all([
    ...byColumn('insert', its.insertExcept ?? {}),
    ...byColumn('update', its.update),
  ]);
  const all = (right: string, tables: readonly string[]) =>
    tables.length === 0 ? '' : `grant ${right} on ${tables.join(', ')} to ${role}`;
  return [
    `revoke all on all tables in schema public from ${role}`,
    `revoke all on all functions in schema public from ${role}`,
    `grant usage on schema public to ${role}`,
    all('select', its.select),
    all('insert', its.insert),
    all('delete', its.delete),
    ...columns,
    ...(its.execute ?? []).map((name) => `grant execute on function ${name} to ${role}`),
  ].join(';\n');
}

export async function roleNames(sql: Queryable): Promise<Record<DaemonRole, string>> {
  const [row] = await sql<
    { owner: string }[]
  >`select regexp_replace(current_user, '_owner$', '') as owner`;
  const of = (daemon: DaemonRole) => `${row?.owner ?? ''}_${daemon}`;
  return {
    serve: of('serve'),
    keeper: of('keeper'),
    dispatch: of('dispatch'),
    reconcile: of('reconcile'),
  };
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
