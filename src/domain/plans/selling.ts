// Why a plan takes no subscription: it is not sold, or payments for it could not be collected.
import type { PlanAccount } from '../../chain/program/layouts.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import type { ChainView } from '../collecting/chain-view.ts';
import { planObstacle } from '../collecting/obstacles.ts';
import type { BlockReason } from '../reasons.ts';
import { planFaults } from './plans.ts';

/** The message when a merchant's wallet subscribes to its own plan. */
export const OWN_PLAN_FAULT =
  'is a plan of this wallet: a merchant cannot subscribe to its own plan';

/** The wallet must approve payments, but the issuer has frozen its token account. */
export const FROZEN_WALLET =
  'The USDC account of this wallet is frozen by the issuer of USDC: it can neither approve nor pay.';

const conflict = (message: string) => new ServiceError('CONFLICT', message);

/**
 * Returns why payments of the plan cannot be collected: the reason that a keeper recorded, else the
 * reason that the accounts show. Null when payments can be collected. `keepers` are the wallets of
 * the service's keepers.
 */
export function blockOf(
  plan: PlanRow,
  keepers: readonly string[],
  onChain: Pick<ChainView, 'plan' | 'merchantTokens'>,
): BlockReason | null {
  if (plan.collectionBlockedReason !== null) return plan.collectionBlockedReason as BlockReason;
  const parties = { keepers: [plan.puller, ...keepers], merchant: plan.owner, mint: plan.mint };
  return planObstacle(onChain, 1n, parties) ?? null;
}

/** The error when a wallet wants to subscribe but the plan's payments cannot be collected. */
export const blockedPlan = (reason: string) =>
  conflict(
    `The plan takes no subscriptions at the moment, because its payments cannot be collected (${reason}).`,
  );

/** Returns the error if the plan's record is closed to new subscriptions. */
export const closedPlan = ({ status }: Pick<PlanRow, 'status'>): ServiceError | undefined =>
  status === 'active'
    ? undefined
    : conflict(`The plan is ${status}: it takes no new subscriptions.`);

/**
 * Returns the plan's account, or the error if the plan is not sold to this wallet: its record or
 * its account is closed to new subscriptions, the account has other terms than the record, or the
 * wallet is the merchant's.
 */
export function soldPlan(
  plan: PlanRow,
  wallet: string,
  keepers: readonly string[],
  { plan: onChain, now }: Pick<ChainView, 'plan' | 'now'>,
): PlanAccount | ServiceError {
  const closed = closedPlan(plan);
  if (closed !== undefined) return closed;
  if (wallet === plan.owner) return invalidField('planId', OWN_PLAN_FAULT);
  const parties = { ...plan, pullers: [plan.puller, ...keepers] };
  if (
    onChain === null ||
    planFaults(plan, onChain, parties).length > 0 ||
    (onChain.endTs !== 0n && onChain.endTs <= now)
  )
    return conflict('The plan is not on chain with its terms any more.');
  if (onChain.status !== 'active')
    return conflict('The plan is sunset on chain: it takes no new subscriptions.');
  return onChain;
}
