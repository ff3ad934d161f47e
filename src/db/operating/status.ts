// Statements of `billing status`. Each statement reads a bounded number of rows: counts stop at a
// limit, and the newest rows are found by id.
import type { Queryable } from '../postgres/connect.ts';

/** Upper limit of every count. */
export const MAX_COUNTED = 10_000;

export interface DatabaseFacts {
  version: string;
  /** True on a standby, and on a server that is set to read-only. */
  readOnly: boolean;
  now: Date;
  /**
   * Connections by application_name, such as "billing keeper". Counts only the connections that the
   * user in DATABASE_URL can see.
   */
  connections: { name: string; count: number }[];
}

export async function readDatabaseFacts(sql: Queryable): Promise<DatabaseFacts> {
  const [row] = await sql<DatabaseFacts[]>`
    select current_setting('server_version') as version,
      current_setting('default_transaction_read_only') = 'on' or pg_is_in_recovery() as read_only,
        clock_timestamp() as now, (
      select coalesce(jsonb_agg(jsonb_build_object('name', name, 'count', count) order by name),
        '[]') from (
        select application_name as name, count(*)::int as count from pg_stat_activity
        where datname = current_database() and application_name like 'billing %'
          and pid <> pg_backend_pid() group by 1
      ) as processes
    ) as connections`;
  if (row === undefined) throw new Error('no facts');
  return row;
}

export interface PaymentFacts {
  /** Number of open attempts; `oldestOpenAt` is the creation time of the oldest one. */
  open: number;
  oldestOpenAt: Date | null;
  /**
   * A setback is a failure that the subscriber did not cause. `setBack` is the number of
   * subscriptions whose last try was a setback. `maxSetbacks` is the highest number of consecutive
   * setbacks of one subscription.
   */
  setBack: number;
  maxSetbacks: number;
  lastPaymentAt: Date | null;
}

export async function readPaymentFacts(sql: Queryable): Promise<PaymentFacts> {
  const [row] = await sql<PaymentFacts[]>`
    select open.count as open, open.oldest as oldest_open_at, back.count as set_back,
      coalesce(back.most, 0) as most_setbacks,
      (select occurred_at from (select id, status, occurred_at from payments order by id desc
        limit ${MAX_COUNTED}) as newest
        where status = 'succeeded' order by id desc limit 1) as last_payment_at
    from
      (select count(*)::int as count, min(created_at) as oldest
        from (select created_at from payment_attempts where state = 'open' order by created_at, id
          limit ${MAX_COUNTED}) as counted) as open,
      (select count(*)::int as count, max(setbacks) as most
        from (select setbacks from subscription_work where setbacks > 0 order by setbacks desc
          limit ${MAX_COUNTED}) as counted) as back`;
  if (row === undefined) throw new Error('no facts');
  return row;
}

/** A wallet whose payments failed on chain within the last day. */
export interface CostlyWallet {
  subscriberWallet: string;
  /**
   * The owner of the plan whose payments failed. If the wallet's payments to several merchants
   * failed, the field names one of these merchants.
   */
  merchantWallet: string;
  /**
   * Number of the wallet's payments that failed on chain because of the wallet. Each failure cost
   * the keeper a transaction fee of up to 10,000 lamports.
   */
  failures: number;
}

/**
 * Lists the wallets with the most payments that failed on chain within the last day. Only the
 * newest 10,000 failures are counted.
 */
export function listCostlyWallets(sql: Queryable, limit: number): Promise<CostlyWallet[]> {
  return sql<CostlyWallet[]>`
    select newest.subscriber_wallet, max(p.owner) as merchant_wallet, count(*)::int as failures
    from (
      select plan_id, subscriber_wallet from payments
      where status = 'failed' and tx_signature is not null
        and id >= first_id_at(now() - interval '1 day')
      order by id desc limit ${MAX_COUNTED}
    ) as newest join plans p on p.id = newest.plan_id
    group by newest.subscriber_wallet order by failures desc, newest.subscriber_wallet
      limit ${limit}`;
}

export interface DeliveryFacts {
  /** Number of unfinished deliveries. */
  pending: number;
  /** Number of unfinished deliveries with at least one failed attempt. */
  retrying: number;
  /**
   * Number of failed deliveries to live endpoints. Only deliveries that were created within the
   * last two days are counted.
   */
  failed: number;
}

export async function readDeliveryFacts(sql: Queryable): Promise<DeliveryFacts> {
  const [row] = await sql<DeliveryFacts[]>`
    select pending.count as pending, pending.retrying, (
      select count(*)::int from (
        select 1 from webhook_endpoints e cross join lateral (
          select 1 from deliveries d where d.endpoint_id = e.id and d.status = 'failed'
            and d.id >= first_id_at(now() - interval '2 days')
          limit ${MAX_COUNTED}
        ) as given_up
        where e.deleted_at is null limit ${MAX_COUNTED}
      ) as counted
    ) as failed
    from (
      select count(*)::int as count, count(*) filter (where attempts > 0)::int as retrying
      from (select attempts from delivery_queue limit ${MAX_COUNTED}) as counted
    ) as pending`;
  if (row === undefined) throw new Error('no facts');
  return row;
}

export interface RecentError {
  at: Date;
  what: 'payment' | 'delivery';
  /** Id of the subscription or the delivery. */
  id: string;
  detail: string;
}

/**
 * Lists the newest failures: payment attempts that failed, expired or stayed unexplained, and
 * webhook requests without a 2xx response. Searches only the newest 1,000 payment attempts and
 * deliveries.
 */
export function listRecentErrors(sql: Queryable, limit: number): Promise<RecentError[]> {
  return sql<RecentError[]>`
    select * from (
      (select resolved_at as at, 'payment' as what, subscription_id as id,
        state || coalesce(': ' || error, '') as detail
        from (select id, resolved_at, subscription_id, state, error from payment_attempts
          order by id desc limit 1000) as newest
        where state in ('failed', 'expired', 'unexplained') order by newest.id desc limit ${limit})
      union all
      (select a.started_at, 'delivery', d.id,
          coalesce('HTTP ' || a.http_status, a.error) || ' from ' || coalesce(substring(e.url
            from '^[a-z]+://([^/?#]+)'), e.url) || ', attempt ' || a.number
        from (select id, endpoint_id from all_deliveries order by id desc limit 1000) as d
          cross join lateral (select number, started_at, http_status, error from delivery_attempts
            where delivery_id = d.id limit 6) as a
          join webhook_endpoints e on e.id = d.endpoint_id
        where a.http_status is null or a.http_status not between 200 and 299
          order by a.started_at desc limit ${limit})
    ) as errors order by at desc limit ${limit}`;
}
