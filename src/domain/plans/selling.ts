// Refuses subscriptions that could not be paid, because the plan's payments cannot be collected or
// the wallet is frozen.
import type { PlanAccount, TokenAccount } from '../../chain/program/layouts.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { ServiceError } from '../../errors.ts';
import type { Network } from '../chain-reads.ts';
import { planObstacle } from '../collecting/obstacles.ts';
import type { BlockReason } from '../reasons.ts';
import { partiesOf } from './plans.ts';

/**
 * Returns why payments of the plan cannot be collected: the reason that a keeper recorded, else the
 * reason that the accounts show now. Null when payments can be collected.
 */
export function blockOf(
  plan: PlanRow,
  network: Network,
  onChain: { plan: PlanAccount | null; merchantTokens: TokenAccount | null },
): BlockReason | null {
  if (plan.collectionBlockedReason !== null) return plan.collectionBlockedReason as BlockReason;
  const { pullers: keepers, owner: merchant } = partiesOf(plan, network);
  return planObstacle(onChain, 1n, { keepers, merchant, mint: plan.mint }) ?? null;
}

/** The error when a wallet wants to subscribe but the plan's payments cannot be collected. */
export function blockedPlan(reason: string): ServiceError {
  return new ServiceError(
    'CONFLICT',
    `The plan takes no subscriptions at the moment, because its payments cannot be collected (${reason}).`,
  );
}

/** The error when a wallet must approve payments but the issuer has frozen its token account. */
export function frozenWallet(): ServiceError {
  return new ServiceError(
    'CONFLICT',
    'The USDC account of this wallet is frozen by the issuer of USDC: it can neither approve nor pay.',
  );
}
