// The API's view of a subscription: the row with derived fields.
import type { SubscriptionRow } from '../../db/subscriptions/subscriptions.ts';
import { accessUntil } from '../../domain/accounts/access.ts';
import { nextAmount, openOf } from '../../domain/invoices/upcoming.ts';
import { discountView } from './discount.ts';

/**
 * Returns the fields of the schema `Subscription`. `minimum` is PLAN_MINIMUM_AMOUNT. The fields are
 * listed one by one, because V8 keeps a row with this many columns as a dictionary object.
 * Spreading a dictionary object takes ten times as long as writing its JSON.
 */
export function subscriptionView(row: SubscriptionRow, minimum: bigint) {
  return {
    id: row.id,
    appId: row.appId,
    planId: row.planId,
    subscriptionPda: row.subscriptionPda,
    subscriberWallet: row.subscriberWallet,
    merchantWallet: row.merchantWallet,
    status: row.status,
    amount: row.amount,
    periodHours: row.periodHours,
    trialEndsAt: row.trialEndsAt,
    paidThrough: row.paidThrough,
    accessUntil: accessUntil(row),
    nextPaymentDue: row.nextPaymentDue,
    nextAmount: nextAmount(row, openOf(row), minimum)?.toString() ?? null,
    discount: discountView(row),
    pausedAt: row.pausedAt,
    cancelRequestedAt: row.cancelRequestedAt,
    cancelRequestedBy:
      row.cancelRequestedBy === 'subscriber_here' ? 'subscriber' : row.cancelRequestedBy,
    cancelledAt: row.cancelledAt,
    delegationRevokedAt: row.delegationRevokedAt,
    pastDueSince: row.pastDueSince,
    lastFailureReason: row.lastFailureReason,
    endReason: row.endReason,
    reinstatedAt: row.reinstatedAt,
    externalId: row.externalId,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    ownIdsFrom: row.ownIdsFrom,
    replaces: row.replaces,
    replacedBy: row.replacedBy,
    replacedAt: row.replacedAt,
    startsAt: row.startsAt,
    credit: row.credit,
    duplicateOf: row.duplicateOf,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}
