// A merchant's changes to a subscription: the merchant's own ids, a discount, a pause or a
// cancellation. subscriptions.ts registers and lists subscriptions.
import { voidOpenInvoice } from '../invoices/invoices.ts';
import type { DiscountTerms } from '../offers/terms.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { atEndOfAccess, takenFromKeepers } from './leases.ts';

/** The merchant's own identifiers for a subscription. */
export interface OwnIds {
  externalId?: string | null | undefined;
  metadata?: Readonly<Record<string, string>> | undefined;
}

/** Who set externalId and metadata of a subscription. */
export type OwnIdsSource = 'checkout' | 'merchant' | 'subscriber';

/**
 * Updates the given fields. A null externalId clears the field. An externalId that the subscriber
 * set stays the subscriber's until it is given here: metadata alone does not confirm it. Keeps a
 * keeper's claim on the subscription, because the keeper's decisions do not depend on these fields.
 */
export async function updateOwnIds(
  sql: Queryable,
  id: string,
  { externalId, metadata }: OwnIds,
  source: OwnIdsSource,
): Promise<void> {
  await sql`
    update subscriptions set
      external_id = case when ${externalId !== undefined} then ${externalId ?? null} else
        external_id end,
      metadata = coalesce(${metadata === undefined ? null : JSON.stringify(metadata)}::text::jsonb,
        metadata),
      own_ids_from = case when ${externalId === undefined} and external_id is not null
        then own_ids_from else ${source} end, updated_at = now()
    where id = ${id}`;
}

/**
 * Sets or clears a discount. A past-due subscription becomes due now, because the wallet's balance
 * may cover the reduced amount, of which a keeper draws up a new invoice. Returns undefined when
 * the subscription has ended.
 */
export async function updateDiscount(
  sql: Transaction,
  id: string,
  { discountPercent, discountAmount, discountPeriods }: DiscountTerms,
): Promise<{ status: string } | undefined> {
  const [row] = await sql<{ status: string }[]>`
    with edited as (
      update subscriptions set discount_percent = ${discountPercent},
        discount_amount = ${discountAmount}, discount_periods = ${discountPeriods},
        discount_id = case when num_nonnulls(${discountPercent}::int, ${discountAmount}::int8) > 0
          then uuid_v7() end,
        updated_at = now()
      where id = ${id} and status in ('active', 'past_due')
      returning id, status
    ), noticed as (
      update subscription_work w set notices = w.notices + 1,
        due_at = case when edited.status = 'past_due' then least(w.due_at, now()) else w.due_at end
      from edited where w.subscription_id = edited.id
    )
    select status from edited`;
  if (row?.status === 'past_due') await voidOpenInvoice(sql, id, 'replaced');
  return row;
}

/**
 * Makes the past-due subscriptions of a customer due now and voids their open invoices, of which a
 * keeper draws up new ones. An invoice that an attempt may still pay stays.
 */
export async function replaceOverdueInvoices(sql: Transaction, customerId: string): Promise<void> {
  const overdue = await sql<{ id: string }[]>`
    select s.id from subscriptions s join subscription_work w on w.subscription_id = s.id
    where s.customer_id = ${customerId} and s.status = 'past_due'
    order by s.id for no key update of s, w`;
  for (const { id } of overdue) {
    await sql`
      update subscription_work set notices = notices + 1, due_at = least(due_at, now())
      where subscription_id = ${id}`;
    await voidOpenInvoice(sql, id, 'replaced');
  }
}

// A cancellation revokes the claim of the keeper on the subscription. The keeper then cannot store
// a new payment attempt or a result. Before the keeper sends a stored attempt, it checks again
// whether the subscription is cancelled.

/**
 * Who requested a cancellation. `subscriber_here`: the wallet requested it through the API, and it
 * is not on chain yet.
 */
export type CancelRequester = 'subscriber' | 'subscriber_here' | 'merchant';

/**
 * Stops collection. The keeper ends the subscription at the later of paid_through and the end of
 * the trial, or at once if both are null. A merchant's request replaces an earlier request of the
 * subscriber, because the subscriber could undo the earlier request with a resume on chain. Any
 * other earlier request stays. Returns undefined if an earlier request stays or the subscription
 * has ended.
 */
export async function requestCancellation(
  sql: Transaction,
  id: string,
  by: Exclude<CancelRequester, 'subscriber'>,
): Promise<{ cancelRequestedAt: Date; isFirst: boolean } | undefined> {
  const [row] = await sql<{ cancelRequestedAt: Date; isFirst: boolean }[]>`
    with live as (
      select id, cancel_requested_at is null as is_first from subscriptions
      where id = ${id} and status in ('active', 'past_due') and (cancel_requested_by is null
        or (cancel_requested_by <> 'merchant' and ${by} = 'merchant')) for no key update
    ), edited as (
      update subscriptions s set cancel_requested_at = coalesce(cancel_requested_at,
        date_trunc('milliseconds', now())), cancel_requested_by = ${by},
        next_payment_due = null, updated_at = now()
      from live where s.id = live.id
      returning s.id, s.cancel_requested_at, live.is_first, s.trial_ends_at, s.created_at
    ), ${takenFromKeepers(sql, atEndOfAccess(sql))}
    select cancel_requested_at, is_first from edited`;
  return row;
}

/**
 * Ends the subscription now and makes it due, so that a keeper reads its account at once. Pulls
 * that are found after that read count as made after the end. `chainNow` is the chain's time if it
 * was read. The caller holds the row's lock; otherwise cancelled_at could be the start of a wait
 * for the lock. Returns undefined when the subscription has already ended.
 */
export async function forceCancellation(
  sql: Transaction,
  id: string,
  chainNow: Date | null,
): Promise<{ cancelledAt: Date } | undefined> {
  const [row] = await sql<{ cancelledAt: Date }[]>`
    with edited as (
      update subscriptions set status = 'cancelled',
        cancelled_at = date_trunc('milliseconds', clock_timestamp()),
        cancel_requested_at = coalesce(cancel_requested_at, date_trunc('milliseconds', now())),
        cancel_requested_by = coalesce(cancel_requested_by, 'merchant'), end_reason = 'forced',
        past_due_since = null, ended_at = ${endedNow(sql, id, chainNow)},
        stopped_at = coalesce(stopped_at, clock_timestamp()),
        next_payment_due = null, updated_at = now()
      where id = ${id} and status in ('active', 'past_due')
      returning id, cancelled_at
    ), ${takenFromKeepers(sql, sql`now()`)}
    select cancelled_at from edited`;
  if (row !== undefined) await voidOpenInvoice(sql, id, 'ended');
  return row;
}

/**
 * Lifts a force-cancel, or with `anyEnd` any end, so that the same account may be registered again.
 * A repeated call changes nothing. Returns undefined when there is no such end.
 */
export async function reinstateSubscription(
  sql: Transaction,
  id: string,
  { anyEnd }: { anyEnd: boolean },
): Promise<{ reinstatedAt: Date } | undefined> {
  const [row] = await sql<{ reinstatedAt: Date }[]>`
    update subscriptions set
      reinstated_at = coalesce(reinstated_at, date_trunc('milliseconds', now())),
      updated_at = case when reinstated_at is null then now() else updated_at end
    where id = ${id} and status in ('cancelled', 'expired')
      and (end_reason = 'forced' or ${anyEnd})
    returning reinstated_at`;
  return row;
}

// A pause, like a cancellation, revokes the claim of the keeper on the subscription. The
// subscription becomes due, so a keeper reads its account at once, then once a day until the pause
// ends.

/**
 * Stops collection and dunning until the subscription is unpaused. Returns undefined when the
 * subscription has ended, is already paused or is being cancelled.
 */
export async function pauseSubscription(
  sql: Transaction,
  id: string,
): Promise<{ pausedAt: Date } | undefined> {
  const [row] = await sql<{ pausedAt: Date }[]>`
    with edited as (
      update subscriptions set paused_at = date_trunc('milliseconds', now()), status = 'active',
        past_due_since = null, failed_attempts = 0, next_payment_due = null, updated_at = now()
      where id = ${id} and status in ('active', 'past_due') and cancel_requested_at is null
        and paused_at is null
      returning id, paused_at
    ), ${takenFromKeepers(sql, sql`now()`)}
    select paused_at from edited`;
  if (row !== undefined) await voidOpenInvoice(sql, id, 'ended');
  return row;
}

/**
 * Ends a pause. The next payment is due at the latest of paid_through, the end of the trial, a
 * deferred start, `chainNow`, and the end of the wait for the wallet (unclaimed.ts), which is
 * stored in announced_due. Returns undefined when the subscription has ended, is not paused or is
 * being cancelled.
 */
export async function unpauseSubscription(
  sql: Transaction,
  id: string,
  chainNow: Date,
): Promise<{ nextPaymentDue: Date } | undefined> {
  const [row] = await sql<{ nextPaymentDue: Date }[]>`
    with paused as (
      select s.id, w.paid_through
      from subscriptions s join subscription_work w on w.subscription_id = s.id
      where s.id = ${id} and s.status in ('active', 'past_due')
        and s.cancel_requested_at is null and s.paused_at is not null
      for no key update of s, w
    ), edited as (
      update subscriptions s set paused_at = null,
        billed_from = greatest(s.billed_from, ${chainNow}),
        next_payment_due = greatest(p.paid_through, s.trial_ends_at, s.starts_at, ${chainNow},
          case when s.unclaimed and s.without_offer and p.paid_through is null
            then s.announced_due end),
        updated_at = now()
      from paused p where s.id = p.id
      returning s.id, s.next_payment_due
    ), ${takenFromKeepers(sql, sql`${chainNow}::timestamptz`)}
    select next_payment_due from edited`;
  return row;
}

/**
 * SQL for ended_at: the chain's time, or the database's time if the chain's clock was not read, or
 * the time of the subscription's last payment if that is later.
 */
export function endedNow(sql: Queryable, id: string, chainNow: Date | null = null) {
  return sql`greatest(coalesce(${chainNow}::timestamptz, date_trunc('milliseconds', now())),
    (select max(occurred_at) from payments where subscription_id = ${id}))`;
}
