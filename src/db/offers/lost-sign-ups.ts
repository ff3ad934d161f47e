// Sponsored sign-ups that landed but have no subscription. An earlier release left a sign-up in
// this state if its account was closed before a keeper settled it. `billing reconcile --repair`
// registers such a sign-up.
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { hexOf } from '../postgres/signatures.ts';
import type { SponsoredPayment, SponsorshipTerms } from './sponsorships.ts';

type Terms =
  'offerId' | 'wallet' | 'subscriptionPda' | 'checkoutSessionId' | 'replaces' | 'creditAt';

/** A landed sign-up without a subscription, with the payment that its transaction made. */
export interface LostSignUp extends Pick<SponsorshipTerms, Terms>, SponsoredPayment {
  planId: string;
  /** Time at which the sponsor signed. */
  createdAt: Date;
}

/** Finds the landed sign-up of this transaction that has no subscription. */
export async function findLostSignUp(
  sql: Queryable,
  signature: string,
): Promise<LostSignUp | undefined> {
  const [row] = await sql<LostSignUp[]>`
    select s.offer_id, s.wallet, s.subscription_pda, s.checkout_session_id, s.replaces, s.credit_at,
      s.plan_id, s.created_at, a.period_start, a.amount_gross, a.platform_fee, a.amount_net,
      a.fee_owed, a.credit_spent
    from transactions t join sponsorships s on s.transaction_id = t.id
      join payment_attempts a on a.offer_id = s.offer_id
    where t.signature = decode(${hexOf(signature)}, 'hex') and s.purpose = 'subscribe'
      and s.state = 'landed' and s.subscription_id is null`;
  return row;
}

/**
 * Locks a landed sign-up until the database transaction ends. Returns false if it has a
 * subscription now.
 */
export async function lockLostSignUp(tx: Transaction, offerId: string): Promise<boolean> {
  const rows = await tx`
    select 1 from sponsorships
    where offer_id = ${offerId} and state = 'landed' and subscription_id is null for update`;
  return rows.length === 1;
}

/** Stores the subscription of a landed sign-up. The caller must hold the lock on the sign-up. */
export async function setSignUpSubscription(
  tx: Transaction,
  offerId: string,
  subscriptionId: string,
): Promise<void> {
  await tx`update sponsorships set subscription_id = ${subscriptionId} where offer_id = ${offerId}`;
}
