// Registrations that a keeper made from the chain, as long as their wallet has not claimed them.
import { voidOpenInvoice } from '../invoices/invoices.ts';
import type { DiscountTerms } from '../offers/terms.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { takenFromKeepers } from './leases.ts';
import type { OwnIds, OwnIdsSource } from './merchant-edits.ts';
import { type TrialTaker, trialsOf } from './subscriptions.ts';

/** The terms of a checkout session, as a registration stores them. */
export interface GivenTerms extends OwnIds, DiscountTerms {
  ownIdsFrom: OwnIdsSource | null;
  discountId: string | null;
  /** Length of the session's trial; null means the plan's trial. */
  trialHours: number | null;
  /** Wallet and customer whose earlier trials count. */
  taker: TrialTaker;
  /** Chain time at which a trial begins; null means no trial. */
  trialFrom: Date | null;
}

/** Tells whether a keeper made this live registration and the wallet has not claimed it yet. */
export async function isUnclaimed(
  sql: Queryable,
  id: string,
  subscriptionPda: string,
): Promise<boolean> {
  const rows = await sql`
    select 1 from subscriptions
    where id = ${id} and subscription_pda = ${subscriptionPda} and unclaimed
      and status in ('active', 'past_due')`;
  return rows.length > 0;
}

/**
 * SQL condition: the wallet's registration of `subscriptions s` may still set its terms, because no
 * attempt was committed. An attempt that landed has set paid_through.
 */
const isSettable = (sql: Queryable) => sql`(s.unclaimed and s.without_offer
  and (select paid_through is null from subscription_work where subscription_id = s.id)
  and not exists (
    select from payment_attempts a
    where a.subscription_pda = s.subscription_pda and a.state = 'open')
  and not exists (
    select from payment_attempts a
    where a.subscription_id = s.id and a.state in ('failed', 'expired', 'unexplained')))`;

/**
 * SQL for the end of the trial that the wallet's registration gives to `subscriptions s`; null
 * without a trial. While its terms can be set, the plan's current trial counts if it is longer.
 */
const trialEnd = (sql: Queryable, { trialHours, trialFrom, taker }: GivenTerms) => sql`(
  case when ${trialFrom}::timestamptz is null
    or exists (${trialsOf(sql, sql`s.app_id`, taker, sql`s.id`)}) then null
  when ${trialHours}::int is not null
    then ${trialFrom}::timestamptz + nullif(${trialHours}::int, 0) * interval '1 hour'
  when ${isSettable(sql)} then greatest(s.trial_ends_at, ${trialFrom}::timestamptz
    + (select trial_hours from plans p where p.id = s.plan_id) * interval '1 hour')
  else s.trial_ends_at end)`;

/**
 * What the wallet's own registration may still change on a keeper's registration of the same
 * account.
 */
export interface Claimable {
  /** Whether the keeper's registration is still unclaimed, so that the wallet may claim it. */
  isUnclaimed: boolean;
  /** Whether the wallet may still set the terms of the keeper's registration. */
  isSettable: boolean;
  /** Whether the keeper's registration has the given terms of a checkout session. */
  hasTerms: boolean;
  /** Whether a checkout session or the merchant has set its externalId or metadata. */
  hasOwnIds: boolean;
}

/** Compares a keeper's registration with the terms of the wallet's own registration. */
export async function readClaimable(
  sql: Transaction,
  id: string,
  given: GivenTerms,
): Promise<Claimable> {
  const { externalId = null, metadata = {} } = given;
  const { discountPercent, discountAmount, discountPeriods } = given;
  const [row] = await sql<Claimable[]>`
    select s.unclaimed as is_unclaimed, ${isSettable(sql)} as is_settable,
      coalesce(s.own_ids_from in ('checkout', 'merchant'), false) as has_own_ids,
      s.external_id is not distinct from ${externalId}::text
        and s.metadata = ${JSON.stringify(metadata)}::text::jsonb
        and s.discount_percent is not distinct from ${discountPercent}::int
        and s.discount_amount is not distinct from ${discountAmount}::int8
        and s.discount_periods is not distinct from ${discountPeriods}::int
        and s.trial_ends_at is not distinct from ${trialEnd(sql, given)} as has_terms
    from subscriptions s where s.id = ${id}`;
  return row ?? { isUnclaimed: false, isSettable: false, hasTerms: false, hasOwnIds: false };
}

/**
 * Marks a keeper's registration as claimed by its wallet. If the keeper waits for the wallet, the
 * first payment becomes due at `dueAt` (chain time), or after the trial. Returns false when the
 * registration was claimed before or was not made by a keeper.
 */
export async function claimRegistration(
  sql: Queryable,
  id: string,
  given: GivenTerms,
  dueAt: Date,
): Promise<boolean> {
  const { count } = await sql`
    with claimable as (
      select s.id, ${isSettable(sql)} and s.status = 'active'
        and coalesce(s.next_payment_due > ${dueAt}, false) as waits,
        greatest(s.trial_ends_at, ${trialEnd(sql, given)}) as trial_end
      from subscriptions s where s.id = ${id}
    ), claimed as (
      update subscriptions s set unclaimed = false,
        trial_ends_at = case when c.waits then c.trial_end else trial_ends_at end,
        next_payment_due = case when c.waits then greatest(${dueAt}, c.trial_end, starts_at)
          else next_payment_due end,
        updated_at = case when c.waits then now() else updated_at end
      from claimable c where s.id = c.id and s.unclaimed
      returning s.id, c.waits
    ), edited as (
      select id from claimed where waits
    ), ${takenFromKeepers(sql, sql`least(w.due_at, ${dueAt})`)}
    select 1 from claimed`;
  return count === 1;
}

/**
 * Sets the terms of a checkout session on a keeper's registration. Ids or a discount that the
 * session does not set stay as the merchant has set them. A past-due payment is tried again at
 * `dueAt` (chain time). Call it before claimRegistration().
 */
export async function setSessionTerms(
  sql: Transaction,
  id: string,
  given: GivenTerms,
  dueAt: Date,
): Promise<void> {
  const { externalId = null, metadata = {}, ownIdsFrom } = given;
  const { discountPercent, discountAmount, discountPeriods, discountId } = given;
  const ids = sql`external_id = ${externalId},
    metadata = ${JSON.stringify(metadata)}::text::jsonb, own_ids_from = ${ownIdsFrom},`;
  const discount = sql`discount_percent = ${discountPercent}, discount_amount = ${discountAmount},
    discount_periods = ${discountPeriods}, discount_id = coalesce(${discountId}::uuid, uuid_v7()),`;
  await sql`
    with edited as (
      update subscriptions s set ${ownIdsFrom === null ? sql`` : ids}
        ${discountPercent === null && discountAmount === null ? sql`` : discount}
        trial_ends_at = t.ends_at,
        status = 'active', past_due_since = null, failed_attempts = 0,
        next_payment_due = case when s.next_payment_due is not null
          then greatest(${dueAt}, t.ends_at, s.starts_at) end,
        updated_at = now()
      from (select ${trialEnd(sql, given)} as ends_at from subscriptions s where s.id = ${id}) as t
      where s.id = ${id}
      returning s.id
    ), ${takenFromKeepers(sql, sql`least(w.due_at, ${dueAt})`)}
    select from edited`;
  await voidOpenInvoice(sql, id, 'replaced');
}
