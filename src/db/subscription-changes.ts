// What a merchant changes of a subscription: its own ids, a discount, a pause, its end. Registering and listing are in registrations.ts.
import type { Queryable, Transaction } from './connect.ts';

/** The merchant's own names for a subscription. */
export interface OwnIds {
  externalId?: string | null | undefined;
  metadata?: Readonly<Record<string, string>> | undefined;
}

/** Writes the fields that are given; a null externalId clears it. The keeper's claim stays: nothing that it decides by is changed. */
export async function updateOwnIds(
  sql: Queryable,
  id: string,
  { externalId, metadata }: OwnIds,
): Promise<void> {
  await sql`
    update subscriptions set
      external_id = case when ${externalId !== undefined} then ${externalId ?? null} else external_id end,
      metadata = coalesce(${metadata === undefined ? null : JSON.stringify(metadata)}::text::jsonb, metadata),
      updated_at = now()
    where id = ${id}`;
}

/** Off each payment: one of the first two, or none. */
export interface DiscountTerms {
  discountPercent: number | null;
  /** Base units. */
  discountAmount: bigint | null;
  /** Payments that the discount still reduces; null: all, 0: it is used up. */
  discountPeriods: number | null;
}

/** Gives a discount or takes it back. A keeper looks at a past-due subscription again: the wallet may hold enough now. Undefined when it has ended. */
export async function updateDiscount(
  sql: Queryable,
  id: string,
  { discountPercent, discountAmount, discountPeriods }: DiscountTerms,
): Promise<{ id: string } | undefined> {
  const [row] = await sql<{ id: string }[]>`
    update subscriptions set discount_percent = ${discountPercent}, discount_amount = ${discountAmount}, discount_periods = ${discountPeriods},
      due_at = case when status = 'past_due' then least(due_at, now()) else due_at end, notices = notices + 1, updated_at = now()
    where id = ${id} and status in ('active', 'past_due')
    returning id`;
  return row;
}

// A merchant's cancel takes the row away from the keeper that holds it: with its claim gone, that keeper can neither commit a new attempt nor write
// its result, and reads the row afresh before it sends.

/**
 * Nothing more is collected; due for its end at paid_through or at its trial's end, at once where there is neither. A subscriber's own request becomes
 * the merchant's, so that a resumption on chain does not undo it. Undefined unless live and not yet asked to end by the merchant.
 */
export async function requestCancellation(
  sql: Transaction,
  id: string,
): Promise<{ cancelRequestedAt: Date; isFirst: boolean } | undefined> {
  const [row] = await sql<{ cancelRequestedAt: Date; isFirst: boolean }[]>`
    with live as (
      select id, cancel_requested_at is null as is_first from subscriptions
      where id = ${id} and status in ('active', 'past_due') and cancel_requested_by is distinct from 'merchant' for no key update
    )
    update subscriptions s set cancel_requested_at = coalesce(cancel_requested_at, date_trunc('milliseconds', now())), cancel_requested_by = 'merchant',
      next_payment_due = null, due_at = coalesce(greatest(paid_through, trial_ends_at), created_at), lease_until = null, claim_id = null, updated_at = now()
    from live where s.id = live.id
    returning s.cancel_requested_at, live.is_first`;
  return row;
}

/** Ends it now; due once more when what was paid is over, since the keeper may have an account to close. Undefined when it has ended already. */
export async function forceCancellation(
  sql: Transaction,
  id: string,
): Promise<{ cancelledAt: Date } | undefined> {
  const [row] = await sql<{ cancelledAt: Date }[]>`
    update subscriptions set status = 'cancelled', cancelled_at = date_trunc('milliseconds', now()),
      cancel_requested_at = coalesce(cancel_requested_at, date_trunc('milliseconds', now())),
      cancel_requested_by = coalesce(cancel_requested_by, 'merchant'), end_reason = 'forced', past_due_since = null,
      ended_at = ${endedNow(sql, id)},
      next_payment_due = null, due_at = greatest(paid_through, now()), lease_until = null, claim_id = null, updated_at = now()
    where id = ${id} and status in ('active', 'past_due')
    returning cancelled_at`;
  return row;
}

// The same holds for a pause. The keeper looks at it once, and then once a day.

/** Nothing is collected until it is unpaused; a past-due one is no longer tried. Undefined unless live, not paused and not asked to end. */
export async function pauseSubscription(
  sql: Transaction,
  id: string,
): Promise<{ pausedAt: Date } | undefined> {
  const [row] = await sql<{ pausedAt: Date }[]>`
    update subscriptions set paused_at = date_trunc('milliseconds', now()), status = 'active', past_due_since = null, failed_attempts = 0,
      next_payment_due = null, due_at = now(), lease_until = null, claim_id = null, updated_at = now()
    where id = ${id} and status in ('active', 'past_due') and cancel_requested_at is null and paused_at is null
    returning paused_at`;
  return row;
}

/** Payments go on after what is paid, in a trial after its end, else at once (`chainNow`). Undefined unless live, paused and not asked to end. */
export async function unpauseSubscription(
  sql: Transaction,
  id: string,
  chainNow: Date,
): Promise<{ nextPaymentDue: Date } | undefined> {
  const [row] = await sql<{ nextPaymentDue: Date }[]>`
    update subscriptions set paused_at = null, unpaused_at = ${chainNow}, next_payment_due = greatest(paid_through, trial_ends_at, ${chainNow}),
      due_at = ${chainNow}, lease_until = null, claim_id = null, updated_at = now()
    where id = ${id} and status in ('active', 'past_due') and cancel_requested_at is null and paused_at is not null
    returning next_payment_due`;
  return row;
}

/** Now, as the chain's clock may say it: it is not known here, but no payment of the subscription is later. */
export function endedNow(sql: Queryable, id: string) {
  return sql`greatest(date_trunc('milliseconds', now()), (select max(occurred_at) from payments where subscription_id = ${id}))`;
}
