// Searches an app's records for the dashboard's search box. Each statement uses its own index, so a
// search reads few rows of large tables.
import type { Queryable } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import { paidBy, hexOf } from '../postgres/signatures.ts';

export interface Hit {
  kind: 'subscription' | 'payment' | 'refund' | 'event';
  id: string;
  /** Null for an event of a plan or an endpoint. */
  subscriptionId: string | null;
  externalId: string | null;
  subscriberWallet: string | null;
  planName: string | null;
  /** The type of an event; the status of any other hit. */
  what: string;
  at: Date;
}

export const MAX_HITS = 20;

/** Finds subscriptions whose external id starts with this text. */
export function findByExternalId(sql: Queryable, appId: string, start: string): Promise<Hit[]> {
  // ~>=~ and ~<~ compare bytes, so Postgres can use the index for a prefix in any collation. With
  // LIKE, a generic plan could not use the index.
  return subscriptionHits(
    sql,
    sql`select ${hitColumns(sql)} from subscriptions
      where app_id = ${appId} and external_id ~>=~ ${start}
        and external_id ~<~ ${start + LAST_CHARACTER}
      order by external_id using ~<~, id desc limit ${MAX_HITS}`,
  );
}

const LAST_CHARACTER = '\u{10ffff}';

/**
 * Finds subscriptions by a part of the wallet's address. `grams` are all groups of three characters
 * in the part, in lower case. `pattern` is the LIKE pattern for the part.
 */
export function findByWalletPart(
  sql: Queryable,
  appId: string,
  { grams, pattern }: { grams: readonly string[]; pattern: string },
): Promise<Hit[]> {
  // With "app_id =", the planner may read all subscriptions of the app instead of only those of the
  // wallets.
  return subscriptionHits(
    sql,
    sql`select ${hitColumns(sql)} from subscriptions
      where subscriber_wallet in (select wallet from searched_wallets
          where grams(wallet) @> ${[...grams]}::text[] and lower(wallet) like ${pattern})
        and app_id is not distinct from ${appId}::uuid`,
  );
}

/** Finds the registrations whose on-chain subscription account has this address. */
export function findByAddress(sql: Queryable, appId: string, address: string): Promise<Hit[]> {
  return subscriptionHits(
    sql,
    sql`select ${hitColumns(sql)} from subscriptions
      where subscription_pda = ${address} and app_id is not distinct from ${appId}::uuid`,
  );
}

/** The columns of subscriptions that subscriptionHits() reads. */
const hitColumns = (sql: Queryable) => sql`
  id, plan_id, external_id, subscriber_wallet, status, created_at`;

/** Reads the newest of the subscriptions that the query `found` selects. */
function subscriptionHits(sql: Queryable, found: Fragment): Promise<Hit[]> {
  return sql<Hit[]>`
    with found as materialized (${found})
    select 'subscription' as kind, s.id, s.id as subscription_id, s.external_id,
      s.subscriber_wallet, p.name as plan_name, s.status as what, s.created_at as at
    from (select * from found order by id desc limit ${MAX_HITS}) as s
      join plans p on p.id = s.plan_id
    order by s.id desc`;
}

/** Finds a subscription, payment, refund or event by its id. */
export function findById(sql: Queryable, appId: string, id: string): Promise<Hit[]> {
  return sql<Hit[]>`
    select hit.kind, hit.id, hit.subscription_id, s.external_id, s.subscriber_wallet,
      p.name as plan_name, hit.what, hit.at
    from (
      select 'subscription' as kind, id, id as subscription_id, status as what, created_at as at
        from subscriptions where id = ${id} and app_id = ${appId}
      union all
      select 'payment', id, subscription_id, status, occurred_at
        from payments where id = ${id} and app_id = ${appId}
      union all
      select 'refund', id, subscription_id, status, coalesce(occurred_at, created_at)
        from refunds where id = ${id} and app_id = ${appId}
      union all
      select 'event', id, subscription_id, type, created_at
        from events where id = ${id} and app_id = ${appId}
    ) as hit
      left join subscriptions s on s.id = hit.subscription_id left join plans p on p.id = s.plan_id`;
}

/**
 * Finds the payments and the refund of a transaction. Failed payments are found through the
 * transaction's attempts, because no index of payments contains their signatures.
 */
export function findBySignature(sql: Queryable, appId: string, signature: string): Promise<Hit[]> {
  return sql<Hit[]>`
    select hit.kind, hit.id, hit.subscription_id, s.external_id, s.subscriber_wallet,
      plans.name as plan_name, hit.what, hit.at
    from (
      select 'payment' as kind, p.id, p.subscription_id, p.status as what, p.occurred_at as at
        from payments p
        where ${paidBy(sql, [signature])} and p.status = 'succeeded' and p.app_id = ${appId}
      union all
      select 'payment', p.id, p.subscription_id, p.status, p.occurred_at
        from transactions t join payment_attempts a on a.transaction_id = t.id
          join payments p on p.subscription_id = a.subscription_id and p.status = 'failed'
            and p.tx_signature = ${signature} and p.app_id = ${appId}
        where t.signature = decode(${hexOf(signature)}, 'hex')
      union all
      select 'refund', id, subscription_id, status, coalesce(occurred_at, created_at)
        from refunds where tx_signature = ${signature} and app_id = ${appId}
    ) as hit
      join subscriptions s on s.id = hit.subscription_id join plans on plans.id = s.plan_id
    order by hit.at desc, hit.id desc limit ${MAX_HITS}`;
}
