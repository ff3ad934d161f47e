// What a merchant's cancel changes in a subscription. Both statements take the row away from whichever keeper holds it: with its claim gone,
// that keeper can neither commit a new attempt nor write its result, and reads the row afresh before it sends.
import type { Transaction } from './connect.ts';

/** Nothing more is collected; due for its end at paid_through, at once when nothing was paid. Undefined unless live and not yet asked to end. */
export async function requestCancellation(sql: Transaction, id: string): Promise<{ cancelRequestedAt: Date } | undefined> {
  const [row] = await sql<{ cancelRequestedAt: Date }[]>`
    update subscriptions set cancel_requested_at = date_trunc('milliseconds', now()), cancel_requested_by = 'merchant',
      next_payment_due = null, due_at = coalesce(paid_through, created_at), lease_until = null, claim_id = null, updated_at = now()
    where id = ${id} and status in ('active', 'past_due') and cancel_requested_at is null
    returning cancel_requested_at`;
  return row;
}

/** Ends it now; due once more when what was paid is over, since the keeper may have an account to close. Undefined when it has ended already. */
export async function forceCancellation(sql: Transaction, id: string): Promise<{ cancelledAt: Date } | undefined> {
  const [row] = await sql<{ cancelledAt: Date }[]>`
    update subscriptions set status = 'cancelled', cancelled_at = date_trunc('milliseconds', now()),
      cancel_requested_at = coalesce(cancel_requested_at, date_trunc('milliseconds', now())),
      cancel_requested_by = coalesce(cancel_requested_by, 'merchant'), end_reason = 'forced', past_due_since = null,
      next_payment_due = null, due_at = greatest(paid_through, now()), lease_until = null, claim_id = null, updated_at = now()
    where id = ${id} and status in ('active', 'past_due')
    returning cancelled_at`;
  return row;
}
