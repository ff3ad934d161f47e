// A sponsored change of plan. One transaction cancels the replaced subscription, opens the new
// subscription and pays for its first period, minus the credit. The credit shrinks with time until
// the transaction lands, but the wallet signs a fixed payment. The payment is therefore computed
// with the smaller credit of a later time. If the transaction lands before that time, the credit is
// larger than assumed. The new subscription keeps the difference.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import type { Replaced } from '../actions/wallet-view.ts';
import { type ChangeRequest, readOfferedChange, replacedOf } from '../change/change.ts';
import { readTakenOver } from '../registration/plan-credit.ts';
import type { Refusal } from './limits.ts';

/**
 * Seconds from now to `creditAt`, the chain time for which a credit is computed. The wallet's owner
 * has 150 of these seconds to read the amounts and decide. The last LEAST_CREDIT_SECONDS are left
 * for the transaction.
 */
const CREDIT_SECONDS = 240n;
/**
 * Minimum seconds from the offer to `creditAt`. The transaction cannot land after `creditAt`,
 * because its blockhash is valid for only about a minute.
 */
const LEAST_CREDIT_SECONDS = 90n;
/**
 * Maximum seconds from a keeper's read of the accounts to `creditAt`. A keeper refuses an offer
 * whose `creditAt` is later.
 */
const MAX_CREDIT_SECONDS = 300n;

/** The change of plan that a sponsored transaction makes. */
export interface SponsoredChange extends Replaced {
  /** Credit at `creditAt`, base units. */
  readonly credit: bigint;
  /**
   * Minimum amount to collect, in base units (PLAN_MINIMUM_AMOUNT). The minimum does not apply if
   * the credit pays everything, because nothing is collected then.
   */
  readonly leastPayment: bigint;
}

/**
 * Returns the time for which an offer's credit is computed. If the wallet's owner was shown amounts
 * for the time `shown` and the transaction can still land before this time, returns `shown`.
 * Otherwise returns the time CREDIT_SECONDS from now.
 */
export function creditTime(now: bigint, shown?: Date): Date {
  const ahead = shown === undefined ? 0n : unixSeconds(shown) - now;
  const isUsable = ahead >= LEAST_CREDIT_SECONDS && ahead <= CREDIT_SECONDS;
  return shown !== undefined && isUsable ? shown : timeOf(now + CREDIT_SECONDS);
}

/** Whether an offer's `creditAt` is after `now`, by at most MAX_CREDIT_SECONDS. */
export const isCreditTime = (creditAt: Date, now: bigint): boolean => {
  const ahead = unixSeconds(creditAt) - now;
  return ahead > 0n && ahead <= MAX_CREDIT_SECONDS;
};

/**
 * Computes the change for a sponsored transaction. Returns a refusal if the change is deferred to
 * the end of the paid time, or if the subscription to replace has ended or was already replaced.
 * Throws PaymentUnderWay while its payment or refund may still land.
 */
export async function sponsoredChangeOf(
  sql: Queryable,
  request: ChangeRequest,
  { creditAt, leastPayment }: { creditAt: Date; leastPayment: bigint },
): Promise<SponsoredChange | { refusal: Refusal }> {
  const { old, when } = request;
  if (when !== 'now') return { refusal: 'change_of_plan' };
  const taken = await readTakenOver(sql, { id: old.id, when, at: unixSeconds(creditAt) });
  if (taken === undefined) return { refusal: 'nothing_to_do' };
  return { ...replacedOf(request), credit: taken.credit, leastPayment };
}

/**
 * Reads the change of a signed offer and repeats the API's checks, because a keeper does not trust
 * the API's offers. Returns undefined for a change that the API would not offer.
 */
export async function findSignedChange(
  sql: Queryable,
  { replaces, wallet }: { replaces: string; wallet: string },
  plan: PlanRow | null,
  session: CheckoutSessionRow | null,
): Promise<ChangeRequest | undefined> {
  if (plan === null) return undefined;
  try {
    return await readOfferedChange(sql, { replaces, when: 'now', wallet }, plan, session);
  } catch (error) {
    if (error instanceof ServiceError) return undefined;
    throw error;
  }
}
