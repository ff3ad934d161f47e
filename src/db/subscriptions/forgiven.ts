// A merchant forgives an invoice: nothing is collected for its time, which counts as paid.
import type { Transaction } from '../postgres/connect.ts';
import { takenFromKeepers } from './leases.ts';

/** The subscription after its invoice was forgiven. */
export interface Forgiven {
  nextPaymentDue: Date | null;
}

/**
 * Closes an open invoice of a live subscription as forgiven. The subscription becomes active, its
 * failures are counted anew, and its next payment is due after the paid time, to which a trigger
 * adds the invoice's cover. Revokes the claim of a keeper on the subscription and makes it due, so
 * that a keeper reads its account. Returns undefined, and changes nothing, if the invoice is not
 * open, an attempt may still pay it, or the subscription has ended.
 */
export async function forgiveInvoice(
  sql: Transaction,
  { id, subscriptionId }: { id: string; subscriptionId: string },
): Promise<Forgiven | undefined> {
  // The statements below see what a keeper has committed before it released these locks.
  await sql`
    select from subscriptions s join subscription_work w on w.subscription_id = s.id
    where s.id = ${subscriptionId} for no key update of s, w`;
  const { count } = await sql`
    update invoices i set state = 'void', void_reason = 'forgiven', closed_at = now(),
      troubled_at = coalesce(i.troubled_at, now()), unpaid_at = now()
    from subscriptions s
    where i.id = ${id} and i.state = 'open' and s.id = i.subscription_id
      and s.status in ('active', 'past_due') and not exists (select from payment_attempts a
        where a.subscription_pda = s.subscription_pda and a.state = 'open')`;
  if (count === 0) return undefined;
  const [row] = await sql<Forgiven[]>`
    with edited as (
      update subscriptions s set status = 'active', past_due_since = null, failed_attempts = 0,
        next_payment_due = case when s.paused_at is null and s.cancel_requested_at is null
            and (p.ends_at is null or p.ends_at > w.paid_through)
          then greatest(w.paid_through, s.trial_ends_at, s.starts_at) end,
        updated_at = now()
      from subscription_work w, plans p
      where s.id = ${subscriptionId} and w.subscription_id = s.id and p.id = s.plan_id
      returning s.id, s.next_payment_due
    ), ${takenFromKeepers(sql, sql`now()`)}
    select next_payment_due from edited`;
  return row;
}
