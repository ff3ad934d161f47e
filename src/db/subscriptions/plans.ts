import type { PlanEventContext } from '../delivering/events.ts';
import type { Queryable } from '../postgres/connect.ts';
import { type Page, pageOf } from '../postgres/lists.ts';
import { recordset } from '../postgres/recordset.ts';

export type PlanStatus = 'pending' | 'active' | 'sunset' | 'ended';

export interface PlanRow {
  id: string;
  appId: string;
  name: string;
  /** Shown to subscribers instead of the app's description. */
  description: string | null;
  planPda: string;
  /** A u64 as text, because its column is numeric. */
  chainPlanId: string;
  owner: string;
  mint: string;
  treasury: string;
  puller: string;
  /** USDC base units per period. */
  amount: bigint;
  periodHours: number;
  endsAt: Date | null;
  metadataUri: string;
  /**
   * Hours of access after paidThrough while a payment is due; null means the default
   * (domain/accounts/access.ts).
   */
  graceHours: number | null;
  /**
   * Retry times in hours after the first failure; null means the default
   * (domain/collecting/dunning.ts).
   */
  retryHours: number[] | null;
  /**
   * Hours before a payment at which the payment is announced; null means the default
   * (domain/collecting/look-ahead.ts).
   */
  noticeHours: number[] | null;
  /**
   * Days from the first failure until the subscription expires; null means the operator's default.
   */
  pastDueDays: number | null;
  /** Length of the trial in hours; null means no trial. A wallet gets one trial per app. */
  trialHours: number | null;
  chainCreatedAt: Date | null;
  status: PlanStatus;
  observedAt: Date | null;
  /** Slot at which the plan was first seen on chain; 0 until the plan is seen. */
  observedSlot: bigint;
  /**
   * The reason why payments of the plan cannot be collected (domain/reasons.ts); null when
   * collection works.
   */
  collectionBlockedReason: string | null;
  createdAt: Date;
  updatedAt: Date;
}

export type NewPlan = Omit<PlanRow, 'id' | 'collectionBlockedReason' | 'createdAt' | 'updatedAt'>;

/** The columns of a PlanRow. */
export const planColumns = (sql: Queryable) => sql`
  id, app_id, name, description, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount,
  period_hours, ends_at, metadata_uri, grace_hours, retry_hours, notice_hours, past_due_days,
  trial_hours, chain_created_at, status, observed_at, observed_slot, collection_blocked_reason,
  created_at, updated_at`;

/**
 * Inserts a plan. If another plan with the same address has not ended, throws a PostgresError that
 * names the constraint one_live_plan_per_pda.
 */
export async function insertPlan(sql: Queryable, plan: NewPlan): Promise<PlanRow> {
  const [row] = await sql<PlanRow[]>`
    insert into plans (app_id, name, description, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount,
      period_hours, ends_at, metadata_uri,
      grace_hours, retry_hours, notice_hours, past_due_days, trial_hours, chain_created_at, status, observed_at,
        observed_slot)
    values (${plan.appId}, ${plan.name}, ${plan.description}, ${plan.planPda}, ${plan.chainPlanId},
      ${plan.owner}, ${plan.mint}, ${plan.treasury}, ${plan.puller},
      ${plan.amount}, ${plan.periodHours}, ${plan.endsAt}, ${plan.metadataUri}, ${plan.graceHours},
        ${plan.retryHours}, ${plan.noticeHours}, ${plan.pastDueDays}, ${plan.trialHours}, ${plan.chainCreatedAt},
          ${plan.status}, ${plan.observedAt},
      ${plan.observedSlot})
    returning ${planColumns(sql)}`;
  if (row === undefined) throw new Error('a plan was not stored');
  return row;
}

export async function findPlan(sql: Queryable, id: string): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`select ${planColumns(sql)} from plans where id = ${id}`;
  return row;
}

export interface PublicPlanRow {
  id: string;
  appId: string;
  name: string;
  description: string | null;
  status: PlanStatus;
  amount: bigint;
  periodHours: number;
  trialHours: number | null;
  endsAt: Date | null;
  /** Whether payments of the plan cannot be collected at the moment. */
  blocked: boolean;
  planPda: string;
  appName: string;
  appDescription: string | null;
  websiteUrl: string | null;
  /** Whether the website is proven to belong to the merchant. False without a website. */
  websiteProven: boolean;
  supportEmail: string | null;
  supportUrl: string | null;
  termsUrl: string | null;
  privacyUrl: string | null;
  /** Part of the logo's URL. Null without a logo. */
  logoVersion: string | null;
  merchantName: string | null;
  merchantWallet: string;
  /** False while the merchant is suspended. */
  available: boolean;
}

export async function findPublicPlan(
  sql: Queryable,
  id: string,
): Promise<PublicPlanRow | undefined> {
  const [row] = await sql<PublicPlanRow[]>`
    select p.id, p.app_id, p.name, p.description, p.status, p.amount, p.period_hours, p.trial_hours, p.ends_at,
      p.collection_blocked_reason is not null as blocked,
      p.plan_pda, a.name as app_name,
      a.description as app_description, a.website_url,
      a.website_proven_at is not null as website_proven, a.support_email, a.support_url,
      a.terms_url, a.privacy_url, a.logo_version, m.name as merchant_name,
      m.wallet as merchant_wallet,
      not exists (select from suspensions where role = 'merchant' and wallet = m.wallet)
        as available
    from plans p join apps a on a.id = p.app_id join merchants m on m.id = a.merchant_id
      where p.id = ${id}`;
  return row;
}

/** Lists an app's plans, newest first. */
export function listPlans(sql: Queryable, appId: string, page: Page): Promise<PlanRow[]> {
  const key = { column: 'app_id', value: sql`${appId}::uuid` };
  return sql<PlanRow[]>`select ${planColumns(sql)} from plans where ${pageOf(sql, key, page)}`;
}

/** Lists up to 50 active plans of an app, cheapest first. Leaves out the plan `except`. */
export function listChangeablePlans(
  sql: Queryable,
  appId: string,
  except: string,
): Promise<Pick<PlanRow, 'id' | 'name' | 'amount' | 'periodHours' | 'endsAt'>[]> {
  return sql`
    select id, name, amount, period_hours, ends_at from plans
    where app_id = ${appId} and status = 'active' and id <> ${except}
      and collection_blocked_reason is null
    order by amount::numeric / period_hours, id limit 50`;
}

export type PlanPrice = Pick<PlanRow, 'id' | 'name' | 'amount' | 'periodHours'>;

/**
 * Lists the prices of an app's two cheapest and two most expensive plans, by price per hour. Ended
 * plans are left out. A plan may occur twice in the list.
 */
export function listOuterPrices(sql: Queryable, appId: string): Promise<PlanPrice[]> {
  const outer = (order: ReturnType<Queryable>) => sql`
    (select id, name, amount, period_hours from plans where app_id = ${appId} and status <> 'ended'
     order by amount::numeric / period_hours ${order}, id limit 2)`;
  return sql<PlanPrice[]>`${outer(sql`asc`)} union all ${outer(sql`desc`)}`;
}

export function findPlans(sql: Queryable, ids: readonly string[]): Promise<PlanRow[]> {
  return sql<PlanRow[]>`select ${planColumns(sql)} from plans where id = any(${ids}::uuid[])`;
}

/**
 * Counts the pending plans of the app's merchant. Locks the merchant's row, so that the count stays
 * valid until the transaction ends.
 */
export async function countPendingPlans(sql: Queryable, appId: string): Promise<number> {
  await sql`select 1 from merchants where id = (select merchant_id from apps where id = ${appId})
    for no key update`;
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from apps a join plans p on p.app_id = a.id
    where a.merchant_id = (select merchant_id from apps where id = ${appId})
      and p.status = 'pending'`;
  return row?.count ?? 0;
}

/** Plan fields that a merchant may change at any time; they are not stored on chain. */
export interface PlanChanges {
  name?: string | undefined;
  description?: string | null | undefined;
  graceHours?: number | null | undefined;
  retryHours?: number[] | null | undefined;
  noticeHours?: number[] | null | undefined;
  pastDueDays?: number | null | undefined;
  trialHours?: number | null | undefined;
}

/** Updates the given fields; null resets a field to its default. */
export async function updatePlan(
  sql: Queryable,
  id: string,
  { name, description, graceHours, retryHours, noticeHours, pastDueDays, trialHours }: PlanChanges,
): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`
    update plans set
      name = coalesce(${name ?? null}, name),
      description = case when ${description !== undefined} then ${description ?? null} else
        description end,
      grace_hours = case when ${graceHours !== undefined} then ${graceHours ?? null} else
        grace_hours end,
      retry_hours = case when ${retryHours !== undefined} then ${retryHours ?? null}::int[] else
        retry_hours end,
      notice_hours = case when ${noticeHours !== undefined} then ${noticeHours ?? null}::int[] else
        notice_hours end,
      past_due_days = case when ${pastDueDays !== undefined} then ${pastDueDays ?? null}::int else
        past_due_days end,
      trial_hours = case when ${trialHours !== undefined} then ${trialHours ?? null}::int else
        trial_hours end,
      updated_at = now()
    where id = ${id}
    returning ${planColumns(sql)}`;
  return row;
}

/**
 * Closes an active plan to new registrations. Returns undefined when the plan is pending or ended.
 */
export async function sunsetPlan(sql: Queryable, id: string): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`
    update plans set status = 'sunset', updated_at = now() where id = ${id}
      and status in ('active', 'sunset') returning ${planColumns(sql)}`;
  return row;
}

/**
 * Makes a pending plan active or sunset after the plan was seen on chain. Returns undefined if the
 * plan is not pending.
 */
export async function activatePlan(
  sql: Queryable,
  id: string,
  {
    status,
    chainCreatedAt,
    observedSlot,
  }: { status: 'active' | 'sunset'; chainCreatedAt: Date; observedSlot: bigint },
): Promise<PlanRow | undefined> {
  const [row] = await sql<PlanRow[]>`
    update plans set status = ${status}, chain_created_at = ${chainCreatedAt},
      observed_slot = ${observedSlot}, observed_at = now(), updated_at = now()
    where id = ${id} and status = 'pending'
    returning ${planColumns(sql)}`;
  return row;
}

/** Locks the plans until the transaction ends. */
export async function lockPlans(sql: Queryable, ids: string[]): Promise<void> {
  await sql`select 1 from plans where id = any(${ids}::uuid[]) order by id for no key update`;
}

/**
 * Marks plans as blocked, except plans that are blocked already, pending or ended. For each marked
 * plan, returns the fields of a plan event.
 */
export function markBlocked(
  sql: Queryable,
  plans: readonly { planId: string; reason: string }[],
): Promise<PlanEventContext[]> {
  return sql<PlanEventContext[]>`
    update plans p set collection_blocked_reason = v.reason, updated_at = now()
    from (${recordset(sql, plans, { planId: 'uuid', reason: 'text' })}) as v, apps a, merchants m
    where p.id = v.plan_id and a.id = p.app_id and m.id = a.merchant_id and p.collection_blocked_reason
      is null and p.status in ('active', 'sunset')
    returning uuid_v7() as event_id, p.app_id, p.id as plan_id, p.plan_pda, p.name as plan_name,
      m.wallet as merchant_wallet`;
}

export async function unmarkBlocked(sql: Queryable, id: string): Promise<void> {
  await sql`
    update plans set collection_blocked_reason = null, updated_at = now() where id = ${id}
      and collection_blocked_reason is not null`;
}

export function countBlockedPlans(sql: Queryable): Promise<{ reason: string; count: number }[]> {
  return sql<{ reason: string; count: number }[]>`
    select collection_blocked_reason as reason, count(*)::int as count from plans
    where collection_blocked_reason is not null group by 1`;
}

/** Returns the addresses of all plans that accept new subscriptions. */
export async function listActivePlanPdas(sql: Queryable): Promise<string[]> {
  const rows = await sql<{ planPda: string }[]>`
    select plan_pda from plans where status = 'active'`;
  return rows.map(({ planPda }) => planPda);
}

/** Finds the plans at these addresses, without ended plans. */
export function findPlansAt(sql: Queryable, planPdas: string[]): Promise<PlanRow[]> {
  return sql<
    PlanRow[]
  >`select ${planColumns(sql)} from plans where plan_pda = any(${planPdas}::text[]) and status <> 'ended'`;
}

/** Changes a plan's status from `from` to `to`. Returns false when the status is not `from`. */
export async function movePlan(
  sql: Queryable,
  id: string,
  { from, to, endsAt }: { from: PlanStatus; to: PlanStatus; endsAt: Date | null },
): Promise<boolean> {
  const rows = await sql`
    update plans set status = ${to}, ends_at = ${endsAt}, updated_at = now(),
      collection_blocked_reason = case when ${to} <> 'ended' then collection_blocked_reason end
    where id = ${id} and status = ${from} returning 1`;
  return rows.length > 0;
}
