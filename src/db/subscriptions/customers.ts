// Customers of an app. A customer is identified by an external id, which the merchant chooses.
// subscriptionsOf() and readCustomer() can also find a customer by wallet.
import type { MayLand } from '../offers/offers.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { type Fragment, type Page, pageOf } from '../postgres/lists.ts';

export interface Customer {
  appId: string;
  externalId: string;
}

/**
 * Locks a customer until the transaction ends. Other transactions that offer or register a
 * subscription for this customer wait.
 */
export async function lockCustomer(
  sql: Transaction,
  { appId, externalId }: Customer,
): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`${appId} ${externalId}`}, 1))`;
}

/**
 * Finds the customer's oldest live subscription. Ignores the subscription `except`, and
 * subscriptions that a change of plan has replaced.
 */
export async function findLiveOfCustomer(
  sql: Queryable,
  { appId, externalId }: Customer,
  except: string | null = null,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select id from subscriptions where app_id = ${appId} and external_id = ${externalId}
      and status in ('active', 'past_due') and replaced_by is null
      and id is distinct from ${except}::uuid
    order by id limit 1`;
  return row?.id;
}

/**
 * Maximum number of transactions of each kind that listReservations() returns. When the newest
 * transactions have expired, all earlier ones have expired too.
 */
const MAX_RESERVATIONS = 8;

/**
 * Lists the transactions of the customer's other checkout sessions that may have been sent and
 * would open a subscription at an address other than `subscriptionPda`. Leaves out transactions
 * that were only requested. The list has no age limit, because only the chain shows which
 * transactions can no longer land.
 */
export function listReservations(
  sql: Queryable,
  { appId, externalId }: Customer,
  { sessionId, subscriptionPda }: { sessionId: string; subscriptionPda: string },
): Promise<MayLand[]> {
  const others = sql`c.app_id = ${appId} and c.external_id = ${externalId} and c.id <> ${sessionId}
        and c.id >= id_at(now() - interval '25 hours')
        and o.purpose = 'subscribe' and o.subscription_pda <> ${subscriptionPda}`;
  return sql<MayLand[]>`
    (select coalesce(o.signed_blockhash, o.blockhash) as blockhash,
        o.reserved_height as last_valid_block_height,
        coalesce(o.signed_blockhash_slot, o.blockhash_slot) as slot
      from checkout_sessions c join offers o on o.checkout_session_id = c.id
      where ${others} and o.registered_at is null and o.reserved_height is not null
      order by greatest(o.created_at, o.signed_at) desc limit ${MAX_RESERVATIONS})
    union all
    (select o.blockhash, o.last_valid_block_height, o.blockhash_slot
      from checkout_sessions c join offers o on o.checkout_session_id = c.id
        left join sponsorships s on s.offer_id = o.id
      where ${others} and o.signed is not null and coalesce(s.state, 'open') = 'open'
      order by o.created_at desc limit ${MAX_RESERVATIONS})`;
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

/**
 * The customer whose subscriptions are read. At least one field is given. If both are given, a
 * subscription must match both.
 */
export interface Whose {
  subscriberWallet: string | null;
  externalId: string | null;
}

/**
 * SELECT of the ids of a customer's subscriptions. `apps` is an SQL array of app ids. Uses the
 * index of the external id if an external id is given, otherwise the index of the wallet.
 */
export function subscriptionsOf(
  sql: Queryable,
  apps: Fragment,
  { subscriberWallet: wallet, externalId }: Whose,
): Fragment {
  if (externalId === null)
    // With "is true", Postgres cannot use the index of the app, so it uses the index of the wallet.
    return sql`select id from subscriptions
      where subscriber_wallet = ${wallet} and (app_id = any(${apps})) is true`;
  return sql`select id from subscriptions
    where app_id = any(${apps}) and external_id = ${externalId}
      ${wallet === null ? sql`` : sql`and subscriber_wallet is not distinct from ${wallet}`}`;
}

/** Finds the id of the customer of a subscription. */
export async function findCustomerOf(
  sql: Queryable,
  subscriptionId: string,
): Promise<string | undefined> {
  const [row] = await sql<{ customerId: string }[]>`
    select customer_id from subscriptions where id = ${subscriptionId}`;
  return row?.customerId;
}

/** Maximum number of ids and of wallets that are listed of a customer. */
const MAX_NAMED = 20;

/** A row of customers, for the API. */
export interface CustomerRow {
  id: string;
  appId: string;
  externalId: string | null;
  /** The wallet of a customer without an external id. */
  wallet: string | null;
  name: string | null;
  email: string | null;
  /** Newest first, at most MAX_NAMED. */
  subscriptionIds: string[];
  /** Base units. */
  credit: bigint;
  createdAt: Date;
}

/** Lists an app's customers, newest first: all, or the one with the external id or the wallet. */
export function listCustomers(
  sql: Queryable,
  appId: string,
  { externalId, wallet }: { externalId: string | null; wallet: string | null },
  page: Page,
): Promise<CustomerRow[]> {
  const { after, limit } = page;
  // The unique indexes of both columns find at most one.
  const named = [
    sql`app_id = ${appId}`,
    ...(externalId === null ? [] : [sql`and external_id = ${externalId}`]),
    ...(wallet === null ? [] : [sql`and wallet = ${wallet}`]),
    ...(after === null ? [] : [sql`and id < ${after}`]),
    sql`limit ${limit}`,
  ];
  const isNamed = externalId !== null || wallet !== null;
  const key = { column: 'app_id', value: sql`${appId}::uuid` };
  const found = isNamed ? sql`${named}` : pageOf(sql, key, page);
  return sql<CustomerRow[]>`
    select ${rowColumns(sql)}
    from (select ${readColumns(sql)} from customers where ${found}) as c order by c.id desc`;
}

export async function findCustomer(sql: Queryable, id: string): Promise<CustomerRow | undefined> {
  const [row] = await sql<CustomerRow[]>`
    select ${rowColumns(sql)} from customers c where c.id = ${id}`;
  return row;
}

const readColumns = (sql: Queryable) =>
  sql`id, app_id, external_id, wallet, name, email, created_at`;

/** The columns of a CustomerRow, from `customers c`. */
const rowColumns = (sql: Queryable) => sql`
  c.id, c.app_id, c.external_id, c.wallet, c.name, c.email, array(
    select s.id from subscriptions s where s.customer_id = c.id order by s.id desc
    limit ${MAX_NAMED})::text[] as subscription_ids,
  coalesce((select balance from credit_balances where customer_id = c.id), 0) as credit,
  c.created_at`;

/** What a customer has in an app. Amounts are sums of base units, as text. */
export interface CustomerSums {
  /** The customers to whom the subscriptions belong, newest first, at most MAX_NAMED. */
  customerIds: string[];
  externalIds: string[];
  wallets: string[];
  subscriptions: number;
  live: number;
  paid: string;
  refunded: string;
  credit: string;
  createdAt: Date;
}

/**
 * `createdAt` is null when the customer has no subscription. `externalIds` is null when no
 * subscription has an external id.
 */
type Summed = Omit<CustomerSums, 'externalIds' | 'createdAt'> & {
  externalIds: string[] | null;
  createdAt: Date | null;
};

/** Adds up a customer's subscriptions and payments; undefined when there is no subscription. */
export async function readCustomer(
  sql: Queryable,
  appId: string,
  whose: Whose,
): Promise<CustomerSums | undefined> {
  // LATERAL makes Postgres look up the payments of each subscription by index.
  const [row] = await sql<Summed[]>`
    select (array_agg(distinct s.customer_id::text order by s.customer_id::text desc)
        )[1:${MAX_NAMED}] as customer_ids,
      (array_agg(distinct s.external_id) filter (where s.external_id is not null)
        )[1:${MAX_NAMED}] as external_ids,
      (array_agg(distinct s.subscriber_wallet))[1:${MAX_NAMED}] as wallets,
      count(*)::int as subscriptions,
      count(*) filter (where s.status in ('active', 'past_due'))::int as live,
      coalesce(sum(of_one.paid), 0)::text as paid,
      coalesce(sum(of_one.refunded), 0)::text as refunded,
      (select coalesce(sum(balance), 0)::text from credit_balances
        where customer_id = any(array_agg(distinct s.customer_id))) as credit,
      min(s.created_at) as created_at
    from (${subscriptionsOf(sql, sql`array[${appId}::uuid]`, whose)}) as theirs
      join subscriptions s on s.id = theirs.id
      cross join lateral (
        select sum(amount_gross) as paid, sum(amount_refunded) as refunded from payments
        where subscription_id = s.id and status = 'succeeded'
      ) as of_one`;
  if (row === undefined) return undefined;
  const { createdAt, externalIds, ...sums } = row;
  if (createdAt === null) return undefined;
  return { ...sums, createdAt, externalIds: externalIds ?? [] };
}
