import type { Queryable } from '../postgres/connect.ts';
import { LAST_ID } from '../postgres/ids.ts';
import type { Page } from '../postgres/lists.ts';

export type Tier = 'free' | 'pro';

/** The seller's details on receipts, and whether buyers' details are stored. */
interface ReceiptSettings {
  legalName: string | null;
  legalAddress: string | null;
  taxId: string | null;
  keepBuyerDetails: boolean;
}

export interface MerchantRow extends ReceiptSettings {
  id: string;
  wallet: string;
  name: string | null;
  email: string | null;
  /** Whether the link in the confirmation was opened. E-mails about failures are sent only then. */
  emailConfirmed: boolean;
  /** Whether e-mails about failures are sent to the merchant. */
  mails: boolean;
  tier: Tier;
  createdAt: Date;
}

/** The columns of a MerchantRow, selected from `merchants m`. */
export const merchantColumns = (sql: Queryable) => sql`
  m.id, m.wallet, m.name, m.email, m.email_confirmed_at is not null as email_confirmed, m.mails,
    m.tier, m.legal_name, m.legal_address, m.tax_id, m.keep_buyer_details, m.created_at`;

/**
 * Creates a merchant with this wallet and the tier `free`, unless the wallet already has a
 * merchant. With `approval`, the new merchant is suspended until an operator approves it.
 */
export async function ensureMerchant(
  sql: Queryable,
  wallet: string,
  { approval = false }: { approval?: boolean | undefined } = {},
): Promise<void> {
  await sql`
    with made as (
      insert into merchants (wallet) values (${wallet}) on conflict (wallet) do nothing
        returning wallet
    )
    insert into suspensions (role, wallet, reason, waiting)
      select 'merchant', wallet, 'it waits for the approval of the operator', true from made
        where ${approval}
      on conflict (role, wallet) do nothing`;
}

/** Finds the merchants with these wallets. The result has no order. */
export function findMerchants(sql: Queryable, wallets: readonly string[]): Promise<MerchantRow[]> {
  return sql<MerchantRow[]>`
    select m.*
    from unnest(${wallets}::text[]) as wanted (wallet), lateral (
      select ${merchantColumns(sql)} from merchants m where m.wallet = wanted.wallet limit 1
    ) as m`;
}

/** The fields that a merchant may change. null clears a field; undefined leaves it unchanged. */
type MerchantFields = {
  [field in 'name' | 'email' | 'mails' | keyof ReceiptSettings]?: MerchantRow[field] | undefined;
};

export async function updateMerchant(
  sql: Queryable,
  id: string,
  { name, email, legalName, legalAddress, taxId, mails, keepBuyerDetails }: MerchantFields,
): Promise<MerchantRow | undefined> {
  const valueOrColumn = (value: string | null | undefined, column: string) =>
    value === undefined ? sql(column) : sql`${value}::text`;
  const [row] = await sql<MerchantRow[]>`
    update merchants m set
      name = ${valueOrColumn(name, 'name')},
      email = ${valueOrColumn(email, 'email')},
      email_given_at = case when ${email ?? null}::text = m.email and email_confirmed_at is null
        then now() else email_given_at end,
      legal_name = ${valueOrColumn(legalName, 'legal_name')},
      legal_address = ${valueOrColumn(legalAddress, 'legal_address')},
      tax_id = ${valueOrColumn(taxId, 'tax_id')},
      mails = coalesce(${mails ?? null}::boolean, mails),
      keep_buyer_details = coalesce(${keepBuyerDetails ?? null}::boolean, keep_buyer_details),
      updated_at = now()
    where id = ${id}
    returning ${merchantColumns(sql)}`;
  return row;
}

/** A merchant for operators. Only operators can set its tier and platform fee. */
export interface MerchantAdminRow extends MerchantRow {
  /** The merchant's own platform fee; null means the operator's default fee. */
  feeBps: number | null;
  suspension: { reason: string; waiting: boolean } | null;
}

/** The columns of a MerchantAdminRow, selected from `merchants m`. */
const adminColumns = (sql: Queryable) => sql`
  ${merchantColumns(sql)}, m.fee_bps,
    (select jsonb_build_object('reason', s.reason, 'waiting', s.waiting) from suspensions s
      where s.role = 'merchant' and s.wallet = m.wallet) as suspension`;

/** Finds the merchant with this wallet, or with this id when `id` is not null. */
export async function findMerchantBy(
  sql: Queryable,
  { id, wallet }: { id: string | null; wallet: string },
): Promise<MerchantAdminRow | undefined> {
  const [row] = await sql<MerchantAdminRow[]>`
    select ${adminColumns(sql)} from merchants m where m.id = ${id}::uuid
      or m.wallet = ${wallet}`;
  return row;
}

/** Lists merchants, newest first, in pages by id. */
export function listMerchantsAdmin(
  sql: Queryable,
  { tier, after, limit }: Page & { tier: Tier | null },
): Promise<MerchantAdminRow[]> {
  return sql<MerchantAdminRow[]>`
    select ${adminColumns(sql)} from merchants m
    where m.id < ${after ?? LAST_ID} ${tier === null ? sql`` : sql`and m.tier = ${tier}`}
    order by m.id desc limit ${limit}`;
}

export interface MerchantTotals {
  keys: number;
  apps: { id: string; name: string; webhookUrl: string | null }[];
  plans: number;
  subscriptions: Record<'active' | 'pastDue' | 'cancelled' | 'expired', number>;
  /**
   * Number of succeeded payments. `gross` and `fees` are sums over these payments in USDC base
   * units, as text.
   */
  payments: number;
  gross: string;
  fees: string;
}

/** Computes the totals of one merchant. Reads all payments of the merchant. */
export async function readMerchantTotals(sql: Queryable, id: string): Promise<MerchantTotals> {
  const [row] = await sql<MerchantTotals[]>`
    with mine as (select id, name from apps where merchant_id = ${id}),
    paid as (
      select count(*)::int as payments, coalesce(sum(amount_gross), 0)::text as gross,
        coalesce(sum(platform_fee), 0)::text as fees
      from payments where app_id in (select id from mine) and status = 'succeeded'
    ), held as (
      select count(*) filter (where status = 'active')::int as active, count(*)
        filter (where status = 'past_due')::int as past_due,
        count(*) filter (where status = 'cancelled')::int as cancelled, count(*)
          filter (where status = 'expired')::int as expired
      from subscriptions where app_id in (select id from mine)
    )
    select (select count(*)::int from api_keys where merchant_id = ${id} and revoked_at is null) as
      keys,
      (select coalesce(jsonb_agg(jsonb_build_object('id', mine.id, 'name', mine.name, 'webhookUrl',
        e.url) order by mine.id), '[]')
        from mine left join webhook_endpoints e on e.app_id = mine.id
          and e.deleted_at is null) as apps,
      (select count(*)::int from plans where app_id in (select id from mine)) as plans,
      jsonb_build_object('active', held.active, 'pastDue', held.past_due, 'cancelled',
        held.cancelled, 'expired', held.expired) as subscriptions,
      paid.payments, paid.gross, paid.fees
    from paid, held`;
  if (row === undefined) throw new Error('no totals');
  return row;
}

/**
 * Sets a merchant's tier. Returns the previous tier, or undefined when the merchant does not exist.
 */
export async function updateTier(
  sql: Queryable,
  id: string,
  tier: Tier,
): Promise<Tier | undefined> {
  const [row] = await sql<{ before: Tier }[]>`
    with old as (select id, tier from merchants where id = ${id} for update)
    update merchants set tier = ${tier}, updated_at = now() from old where merchants.id = old.id
    returning old.tier as before`;
  return row?.before;
}

/**
 * Sets a merchant's platform fee; null means the operator's default. Returns the previous fee, or
 * undefined when the merchant does not exist.
 */
export async function updateFee(
  sql: Queryable,
  id: string,
  feeBps: number | null,
): Promise<{ before: number | null } | undefined> {
  const [row] = await sql<{ before: number | null }[]>`
    with old as (select id, fee_bps from merchants where id = ${id} for update)
    update merchants set fee_bps = ${feeBps}, updated_at = now() from old
      where merchants.id = old.id
    returning old.fee_bps as before`;
  return row;
}
