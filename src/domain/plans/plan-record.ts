// Decides how the database's record of a plan changes when the plan's on-chain account changes.
import type { PlanAccount } from '../../chain/program/layouts.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import type { PlanRow, PlanStatus } from '../../db/subscriptions/plans.ts';
import { planMatches } from './plans.ts';

/**
 * Returns the new status and the new end time of the plan's record, derived from the plan's
 * account. Returns null when neither of them changes. Pure.
 */
export function assessPlan(
  record: PlanRow,
  account: PlanAccount | null,
  now: bigint,
  keepers: readonly string[],
): { status: PlanStatus; endsAt: Date | null } | null {
  const endsAt = account === null || account.endTs === 0n ? null : timeOf(account.endTs);
  if (record.status === 'pending') {
    if (
      account === null ||
      !planMatches(record, account, { ...record, pullers: [record.puller, ...keepers] })
    )
      return null;
    return { status: account.status, endsAt };
  }
  const recreated =
    account !== null &&
    record.chainCreatedAt !== null &&
    account.createdAt !== unixSeconds(record.chainCreatedAt);
  if (account === null || recreated) return { status: 'ended', endsAt: record.endsAt };
  if (account.endTs !== 0n && now > account.endTs) return { status: 'ended', endsAt };
  const status = account.status === 'sunset' ? 'sunset' : record.status;
  const sameEnd = record.endsAt?.getTime() === endsAt?.getTime();
  return status === record.status && sameEnd ? null : { status, endsAt };
}
