import type { Queryable } from '../postgres/connect.ts';
import { type Page, pageOf } from '../postgres/lists.ts';

export interface AppRow {
  id: string;
  merchantId: string;
  name: string;
  description: string | null;
  websiteUrl: string | null;
  /**
   * Time at which the app's id was found in a file of the website (domain/accounts/website.ts).
   * null means that the website is not proven to belong to the merchant.
   */
  websiteProvenAt: Date | null;
  supportEmail: string | null;
  supportUrl: string | null;
  termsUrl: string | null;
  privacyUrl: string | null;
  /** Version of the logo, as it appears in the logo's URL; null without a logo. */
  logoVersion: string | null;
  /** Origins of the URLs to which a checkout may redirect. */
  returnOrigins: string[];
  /** Whether keepers also register subscriptions that were opened on chain without the service. */
  registerUnclaimed: boolean;
  /** Whether a customer (external id) may have only one live subscription. */
  onePerCustomer: boolean;
  /** Whether a wallet may set externalId and metadata in its registration. */
  ownIdsBySubscriber: boolean;
  /**
   * Whether subscribers may change the plan themselves. If false, the plan can be changed only in a
   * checkout session.
   */
  planChanges: boolean;
  /** Whether the service may sponsor transactions for the app's plans. */
  sponsorship: 'on' | 'off';
  createdAt: Date;
  updatedAt: Date;
}

export interface AppFields {
  name?: string | undefined;
  description?: string | null | undefined;
  websiteUrl?: string | null | undefined;
  supportEmail?: string | null | undefined;
  supportUrl?: string | null | undefined;
  termsUrl?: string | null | undefined;
  privacyUrl?: string | null | undefined;
  returnOrigins?: string[] | undefined;
  registerUnclaimed?: boolean | undefined;
  onePerCustomer?: boolean | undefined;
  ownIdsBySubscriber?: boolean | undefined;
  planChanges?: boolean | undefined;
  sponsorship?: 'on' | 'off' | undefined;
}

/** The columns of an AppRow. */
const columns = (sql: Queryable) => sql`
  id, merchant_id, name, description, website_url, website_proven_at, support_email, support_url,
  terms_url, privacy_url, logo_version, return_origins, register_unclaimed, one_per_customer,
  own_ids_by_subscriber, plan_changes, sponsorship, created_at, updated_at`;

export async function insertApp(
  sql: Queryable,
  merchantId: string,
  {
    name,
    description,
    websiteUrl = null,
    supportEmail = null,
    supportUrl = null,
    termsUrl = null,
    privacyUrl = null,
    returnOrigins = [],
    registerUnclaimed = false,
    onePerCustomer = true,
    ownIdsBySubscriber = false,
    planChanges = true,
    sponsorship = 'on',
  }: AppFields & { name: string },
): Promise<AppRow> {
  const [row] = await sql<AppRow[]>`
    insert into apps (merchant_id, name, description, website_url, support_email, support_url,
      terms_url, privacy_url, return_origins, register_unclaimed, one_per_customer,
      own_ids_by_subscriber, plan_changes, sponsorship)
    values (${merchantId}, ${name}, ${description ?? null}, ${websiteUrl}, ${supportEmail},
      ${supportUrl}, ${termsUrl}, ${privacyUrl}, ${returnOrigins}, ${registerUnclaimed},
      ${onePerCustomer}, ${ownIdsBySubscriber}, ${planChanges}, ${sponsorship})
    returning ${columns(sql)}`;
  if (row === undefined) throw new Error('an app was not stored');
  return row;
}

export async function findApp(sql: Queryable, id: string): Promise<AppRow | undefined> {
  const [row] = await sql<AppRow[]>`select ${columns(sql)} from apps where id = ${id}`;
  return row;
}

/** Finds the apps with these ids. The LIMIT makes Postgres use one index look-up per id. */
export function findApps(sql: Queryable, ids: readonly string[]): Promise<AppRow[]> {
  return sql<AppRow[]>`
    select app.* from unnest(${ids}::uuid[]) as wanted (id), lateral (select ${columns(sql)}
      from apps where id = wanted.id limit 1) as app`;
}

/** Lists a merchant's apps, newest first. */
export function listApps(sql: Queryable, merchantId: string, page: Page): Promise<AppRow[]> {
  const key = { column: 'merchant_id', value: sql`${merchantId}::uuid` };
  return sql<AppRow[]>`select ${columns(sql)} from apps where ${pageOf(sql, key, page)}`;
}

/**
 * Updates the given fields. null clears a field; undefined leaves it unchanged. A new website URL
 * counts as not proven.
 */
export async function updateApp(
  sql: Queryable,
  id: string,
  { name, returnOrigins, registerUnclaimed, onePerCustomer, ...fields }: AppFields,
): Promise<AppRow | undefined> {
  const { description, websiteUrl, ownIdsBySubscriber } = fields;
  const valueOrColumn = (value: string | null | undefined, column: string) =>
    value === undefined ? sql(column) : sql`${value}::text`;
  const [row] = await sql<AppRow[]>`
    update apps set
      name = coalesce(${name ?? null}, name),
      description = ${valueOrColumn(description, 'description')},
      website_url = ${valueOrColumn(websiteUrl, 'website_url')},
      website_proven_at = case when website_url = ${valueOrColumn(websiteUrl, 'website_url')} then
        website_proven_at end,
      support_email = ${valueOrColumn(fields.supportEmail, 'support_email')},
      support_url = ${valueOrColumn(fields.supportUrl, 'support_url')},
      terms_url = ${valueOrColumn(fields.termsUrl, 'terms_url')},
      privacy_url = ${valueOrColumn(fields.privacyUrl, 'privacy_url')},
      return_origins = coalesce(${returnOrigins ?? null}::text[], return_origins),
      register_unclaimed = coalesce(${registerUnclaimed ?? null}::bool, register_unclaimed),
      one_per_customer = coalesce(${onePerCustomer ?? null}::bool, one_per_customer),
      own_ids_by_subscriber = coalesce(${ownIdsBySubscriber ?? null}::bool,
        own_ids_by_subscriber),
      plan_changes = coalesce(${fields.planChanges ?? null}::bool, plan_changes),
      sponsorship = coalesce(${fields.sponsorship ?? null}, sponsorship),
      updated_at = now()
    where id = ${id}
    returning ${columns(sql)}`;
  return row;
}

/** Marks an app's website as proven. Returns undefined if the app now has another website URL. */
export async function markWebsiteProven(
  sql: Queryable,
  id: string,
  websiteUrl: string,
): Promise<AppRow | undefined> {
  const [row] = await sql<AppRow[]>`
    update apps set website_proven_at = now(), updated_at = now()
    where id = ${id} and website_url = ${websiteUrl}
    returning ${columns(sql)}`;
  return row;
}
