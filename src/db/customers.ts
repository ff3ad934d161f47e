// One live subscription per customer: a customer is an external id of an app.
import type { Queryable, Transaction } from './postgres/connect.ts';

export interface Customer {
  appId: string;
  externalId: string;
}

/**
 * Locks a customer until the transaction ends. Other offers and registrations of the customer wait.
 */
export async function lockCustomer(
  sql: Transaction,
  { appId, externalId }: Customer,
): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`${appId} ${externalId}`}, 1))`;
}

/** Finds the customer's oldest live subscription. Ignores the subscription with the id `except`. */
export async function findLiveOfCustomer(
  sql: Queryable,
  { appId, externalId }: Customer,
  except: string | null = null,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select id from subscriptions where app_id = ${appId} and external_id = ${externalId}
      and status in ('active', 'past_due') and id is distinct from ${except}::uuid
    order by id limit 1`;
  return row?.id;
}

/**
 * Tells whether a subscribe transaction of the customer may still land at an address other than
 * `subscriptionPda`. Such a transaction has a valid blockhash at `blockHeight`, and its
 * subscription is not registered.
 */
export async function hasOpenOffer(
  sql: Queryable,
  { appId, externalId }: Customer,
  subscriptionPda: string,
  blockHeight: bigint,
): Promise<boolean> {
  const rows = await sql`
    select 1 from checkout_sessions c join offered_transactions o on o.checkout_session_id = c.id
    where c.app_id = ${appId} and c.external_id = ${externalId}
      and c.id >= id_at(now() - interval '25 hours')
      and o.purpose = 'subscribe' and o.registered_at is null
      and o.subscription_pda <> ${subscriptionPda}
      and o.last_valid_block_height >= ${blockHeight}
    union all
    select 1 from checkout_sessions c join sponsored_offers o on o.checkout_session_id = c.id
      left join sponsorships s on s.offer_id = o.id
    where c.app_id = ${appId} and c.external_id = ${externalId}
      and c.id >= id_at(now() - interval '25 hours')
      and o.purpose = 'subscribe' and o.subscription_pda <> ${subscriptionPda}
      and o.last_valid_block_height >= ${blockHeight} and coalesce(s.state, 'open') = 'open'
    limit 1`;
  return rows.length > 0;
}

/**
 * Marks a new subscription as a duplicate of `other`, the customer's live subscription. Returns
 * `other`, or undefined when the app allows several subscriptions per customer.
 */
export async function markDuplicate(
  sql: Queryable,
  id: string,
  other: string,
): Promise<string | undefined> {
  const [row] = await sql<{ duplicateOf: string }[]>`
    update subscriptions s set duplicate_of = ${other}
    from apps a where s.id = ${id} and a.id = s.app_id and a.one_per_customer
    returning s.duplicate_of`;
  return row?.duplicateOf;
}
