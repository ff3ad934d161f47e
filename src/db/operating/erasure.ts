// Erases a merchant's personal data: names, URLs, keys, secrets, event bodies, webhook responses,
// and the details that buyers entered on receipts. Payments, plan terms and subscription states
// stay as financial records. Wallet addresses stay too, because they are public on chain.
import { deleteBuyerDetails } from '../money/receipts.ts';
import type { Queryable, Sql } from '../postgres/connect.ts';
import { FIRST_ID } from '../postgres/ids.ts';

/** Number of erased rows per table. */
export interface Erased {
  apps: number;
  plans: number;
  keys: number;
  endpoints: number;
  subscriptions: number;
  customers: number;
  checkouts: number;
  /** Number of deleted details that buyers entered on receipts. */
  buyers: number;
  events: number;
  deliveries: number;
}

/** The text that replaces an erased name, because the schema does not allow an empty name. */
const BLANK = 'Erased';
const BATCH = 1000;

/** Counts the merchant's active and past-due subscriptions. */
export async function countLiveSubscriptions(sql: Queryable, merchantId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from subscriptions
    where app_id in (select id from apps where merchant_id = ${merchantId})
      and status in ('active', 'past_due')`;
  return row?.count ?? 0;
}

/**
 * Erases all personal data of a merchant in batches. After an interruption the function can run
 * again; rows that are already erased are then not counted.
 */
export async function eraseMerchant(
  sql: Sql,
  merchant: { id: string; wallet: string },
): Promise<Erased> {
  const erased = await sql.begin((tx) => eraseAccount(tx, merchant));
  const apps = await sql<{ id: string }[]>`select id from apps where merchant_id = ${merchant.id}`;
  const endpoints = await sql<{ id: string }[]>`
    select id from webhook_endpoints where app_id = any(${apps.map(({ id }) => id)}::uuid[])`;
  const events = await total(apps, ({ id }) => inBatches((after) => eraseEvents(sql, id, after)));
  const deliveries = await total(endpoints, ({ id }) =>
    inBatches((after) => eraseDeliveries(sql, id, after)),
  );
  return { ...erased, events, deliveries };
}

async function eraseAccount(
  sql: Queryable,
  { id, wallet }: { id: string; wallet: string },
): Promise<Omit<Erased, 'events' | 'deliveries'>> {
  const apps = sql`(select id from apps where merchant_id = ${id})`;
  await sql`
    update merchants set name = null, email = null, legal_name = null, legal_address = null,
      tax_id = null, keep_buyer_details = false, updated_at = now()
    where id = ${id}`;
  const erased = {
    apps: await count(sql`
      update apps set name = ${BLANK}, description = null, website_url = null,
        website_proven_at = null, support_email = null, support_url = null, terms_url = null,
        privacy_url = null, logo_version = null, return_origins = '{}', updated_at = now()
      where merchant_id = ${id}
        and (name <> ${BLANK} or return_origins <> '{}' or coalesce(description, website_url,
          support_email, support_url, terms_url, privacy_url, logo_version) is not null)`),
    plans: await count(sql`
      update plans set name = ${BLANK}, metadata_uri = '', status = 'ended',
        collection_blocked_reason = null, updated_at = now()
      where app_id in ${apps} and (name <> ${BLANK} or metadata_uri <> '' or status <> 'ended')`),
    keys: await count(sql`delete from api_keys where merchant_id = ${id}`),
    endpoints: await count(sql`
      update webhook_endpoints set url = '', secret = '', previous_secret = case when
        previous_secret is not null then ''::bytea end, headers = null, header_names = '{}',
        deleted_at = coalesce(deleted_at, now())
      where app_id in ${apps} and url <> ''`),
    subscriptions: await count(sql`
      update subscriptions set external_id = null, metadata = '{}', updated_at = now()
      where app_id in ${apps} and (external_id is not null or metadata <> '{}')`),
    customers: await count(sql`
      update customers set external_id = null, name = null, email = null, email_confirmed_at = null,
        notes = null
      where app_id in ${apps} and num_nonnulls(external_id, name, email, notes) > 0`),
    checkouts: await count(sql`
      update checkout_sessions set external_id = null, metadata = '{}', success_url = null,
        cancel_url = null
      where app_id in ${apps}
        and (external_id is not null or metadata <> '{}' or success_url is not null
          or cancel_url is not null)`),
    buyers: await deleteBuyerDetails(sql, id),
  };
  await sql`
    with dropped as (
      delete from delivery_queue where endpoint_id in (select id from webhook_endpoints
        where app_id in ${apps}) returning id
    )
    delete from earlier_attempts where delivery_id in (select id from dropped)`;
  await sql`delete from mails where merchant_id = ${id}`;
  await sql`delete from app_logos where app_id in ${apps}`;
  await sql`delete from sample_events where app_id in ${apps}`;
  await sql`delete from event_readers where app_id in ${apps}`;
  await sql`delete from idempotency_keys where scope = ${`merchant:${id}`}`;
  await sql`delete from auth_nonces where wallet = ${wallet}`;
  await sql`delete from offers where wallet = ${wallet} and sponsor is null`;
  await sql`delete from unregistered_subscriptions where app_id in ${apps}`;
  return erased;
}

interface Batch {
  last: string | null;
  seen: number;
  erased: number;
}

/**
 * Replaces the data in event bodies by `{"erased": true}`. The event rows stay, so the sequence
 * numbers have no gap.
 */
async function eraseEvents(sql: Sql, appId: string, after: string): Promise<Batch | undefined> {
  const [row] = await sql<Batch[]>`
    with page as (
      select id from events where app_id = ${appId} and id > ${after}::uuid order by id
        limit ${BATCH}
    ), done as (
      update events e set body = json_build_object('id', e.id, 'type', e.type, 'createdAt',
        e.body::json -> 'createdAt', 'data',
        json_build_object('erased', true))::text
      from page where e.id = page.id and e.body::json -> 'data' -> 'erased' is null returning 1
    )
    select (select id from page order by id desc limit 1) as last, (select count(*)::int from page)
      as seen,
      (select count(*)::int from done) as erased`;
  return row;
}

async function eraseDeliveries(
  sql: Sql,
  endpointId: string,
  after: string,
): Promise<Batch | undefined> {
  const [row] = await sql<Batch[]>`
    with page as (
      select id from deliveries where endpoint_id = ${endpointId} and id > ${after}::uuid
        order by id limit ${BATCH}
    ), done as (
      update deliveries d set last_response = null, last_address = null
      from page where d.id = page.id and (d.last_response is not null or d.last_address is not null)
        returning 1
    ), earlier as (
      update earlier_attempts a set response = null, address = null
      from page where a.delivery_id = page.id and (a.response is not null or a.address is not null)
    )
    select (select id from page order by id desc limit 1) as last, (select count(*)::int from page)
      as seen,
      (select count(*)::int from done) as erased`;
  return row;
}

async function inBatches(erase: (after: string) => Promise<Batch | undefined>): Promise<number> {
  let erased = 0;
  for (let after: string | null = FIRST_ID; after !== null;) {
    const done = await erase(after);
    erased += done?.erased ?? 0;
    after = done?.seen === BATCH ? done.last : null;
  }
  return erased;
}

async function total<T>(items: readonly T[], of: (item: T) => Promise<number>): Promise<number> {
  let sum = 0;
  for (const item of items) sum += await of(item);
  return sum;
}

async function count(statement: PromiseLike<{ count: number }>): Promise<number> {
  return (await statement).count;
}
