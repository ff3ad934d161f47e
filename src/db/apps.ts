import type { Queryable } from './postgres/connect.ts';
import { type Page, pageOf } from './postgres/lists.ts';

export interface AppRow {
  id: string;
  merchantId: string;
  name: string;
  description: string | null;
  websiteUrl: string | null;
  /** Origins of the URLs to which a checkout may redirect. */
  returnOrigins: string[];
  /** Whether subscriptions on chain that the service did not offer are registered too. */
  registerUnclaimed: boolean;
  /** Whether a customer (external id) may have one live subscription only. */
  onePerCustomer: boolean;
  /** Whether a wallet may set externalId and metadata in its registration. */
  ownIdsBySubscriber: boolean;
  /** Whether transactions for its plans may be sponsored. */
  sponsorship: 'on' | 'off';
  createdAt: Date;
  updatedAt: Date;
}

export interface AppFields {
  name?: string | undefined;
  description?: string | null | undefined;
  websiteUrl?: string | null | undefined;
  returnOrigins?: string[] | undefined;
  registerUnclaimed?: boolean | undefined;
  onePerCustomer?: boolean | undefined;
  ownIdsBySubscriber?: boolean | undefined;
  sponsorship?: 'on' | 'off' | undefined;
}

export async function insertApp(
  sql: Queryable,
  merchantId: string,
  {
    name,
    description,
    websiteUrl,
    returnOrigins = [],
    registerUnclaimed = false,
    onePerCustomer = true,
    ownIdsBySubscriber = false,
    sponsorship = 'on',
  }: AppFields & { name: string },
): Promise<AppRow> {
  const [row] = await sql<AppRow[]>`
    insert into apps (merchant_id, name, description, website_url, return_origins,
      register_unclaimed, one_per_customer, own_ids_by_subscriber, sponsorship)
    values (${merchantId}, ${name}, ${description ?? null}, ${websiteUrl ?? null}, ${returnOrigins},
      ${registerUnclaimed}, ${onePerCustomer}, ${ownIdsBySubscriber}, ${sponsorship})
    returning *`;
  if (row === undefined) throw new Error('an app was not stored');
  return row;
}

export async function findApp(sql: Queryable, id: string): Promise<AppRow | undefined> {
  const [row] = await sql<AppRow[]>`select * from apps where id = ${id}`;
  return row;
}

/** Finds the apps with these ids. The LIMIT makes Postgres use one index look-up per id. */
export function findApps(sql: Queryable, ids: readonly string[]): Promise<AppRow[]> {
  return sql<AppRow[]>`
    select app.* from unnest(${ids}::uuid[]) as wanted (id), lateral (select * from apps
      where id = wanted.id limit 1) as app`;
}

/** Lists a merchant's apps, newest first. */
export function listApps(sql: Queryable, merchantId: string, page: Page): Promise<AppRow[]> {
  const key = { column: 'merchant_id', value: sql`${merchantId}::uuid` };
  return sql<AppRow[]>`select * from apps where ${pageOf(sql, key, page)}`;
}

/** Updates the given fields. null clears a field; undefined leaves it unchanged. */
export async function updateApp(
  sql: Queryable,
  id: string,
  { name, description, websiteUrl, returnOrigins, ...flags }: AppFields,
): Promise<AppRow | undefined> {
  const [row] = await sql<AppRow[]>`
    update apps set
      name = coalesce(${name ?? null}, name),
      description = case when ${description !== undefined} then ${description ?? null} else
        description end,
      website_url = case when ${websiteUrl !== undefined} then ${websiteUrl ?? null} else
        website_url end,
      return_origins = coalesce(${returnOrigins ?? null}::text[], return_origins),
      register_unclaimed = coalesce(${flags.registerUnclaimed ?? null}::bool, register_unclaimed),
      one_per_customer = coalesce(${flags.onePerCustomer ?? null}::bool, one_per_customer),
      own_ids_by_subscriber = coalesce(${flags.ownIdsBySubscriber ?? null}::bool,
        own_ids_by_subscriber),
      sponsorship = coalesce(${flags.sponsorship ?? null}, sponsorship),
      updated_at = now()
    where id = ${id}
    returning *`;
  return row;
}
