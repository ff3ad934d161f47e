// Checks the accounts of a registration: the chain must show a live subscription of the wallet to
// the plan, with the plan's terms.
import { subscriptionAddress } from '../../chain/program/addresses.ts';
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import { unixSeconds } from '../../chain/time.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import type { BillingAddresses } from '../chain-reads.ts';
import { partiesOf, planFaults } from '../plans/plans.ts';
import { OWN_PLAN_FAULT } from '../plans/selling.ts';

interface SeenAccounts {
  readonly subscription: SubscriptionAccount | null;
  readonly plan: PlanAccount | null;
  readonly now: bigint;
  readonly isOffered: boolean;
}

/**
 * Throws VALIDATION_ERROR if the plan's record takes no subscriptions. `isOffered`: the account
 * comes from a change of plan or from a relayed transaction. Both started while the plan was
 * active, so they are registered even after a sunset.
 */
export function refuseClosed(
  { status }: Pick<PlanRow, 'status'>,
  { isOffered }: { isOffered: boolean },
): void {
  if (status === 'active' || (status === 'sunset' && isOffered)) return;
  const why = {
    pending: 'is not published on chain yet',
    sunset: 'takes no new subscriptions',
    ended: 'has ended',
  }[status];
  throw invalidField('planId', why);
}

/**
 * Validates the accounts and returns the subscription account. `seen.now` is chain time in Unix
 * seconds. `isOffered`: see refuseClosed(). Throws as `checkRegistration` does.
 */
export function judgeRegistration(
  { wallet, subscriptionPda }: { wallet: string; subscriptionPda: string },
  plan: PlanRow,
  network: BillingAddresses,
  seen: SeenAccounts,
): SubscriptionAccount {
  const { subscription } = seen;
  if (subscription === null)
    throw new ServiceError('NOT_FOUND', `There is no subscription at ${subscriptionPda} on chain.`);
  if (subscription.subscriber !== wallet)
    throw new ServiceError('FORBIDDEN', 'This subscription belongs to another wallet.');
  if (
    subscriptionPda !== subscriptionAddress(network.programId, plan.planPda, wallet).address ||
    subscription.plan !== plan.planPda
  ) {
    throw invalidField('subscriptionPda', 'is not the address of your subscription to this plan');
  }
  if (wallet === plan.owner) throw invalidField('planId', OWN_PLAN_FAULT);
  refuseClosed(plan, seen);
  if (seen.plan === null || planFaults(plan, seen.plan, partiesOf(plan, network)).length > 0)
    throw invalidField('planId', 'is not on chain with its terms any more');
  if (seen.plan.endTs !== 0n && seen.now >= seen.plan.endTs)
    throw invalidField('planId', 'has ended');
  const sameTerms =
    subscription.amount === plan.amount &&
    subscription.periodHours === BigInt(plan.periodHours) &&
    plan.chainCreatedAt !== null &&
    subscription.planCreatedAt === unixSeconds(plan.chainCreatedAt);
  if (!sameTerms) throw invalidField('subscriptionPda', 'has other terms than the plan');
  if (subscription.expiresAt !== 0n) throw invalidField('subscriptionPda', 'is cancelled on chain');
  return subscription;
}
