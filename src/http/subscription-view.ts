// The API's view of a subscription: the row with derived fields.
import type { SubscriptionRow } from '../db/subscriptions.ts';
import { accessUntil } from '../domain/accounts/access.ts';
import { nextAmount } from '../domain/collecting/price.ts';
import { discountView } from './discount.ts';

/**
 * Returns the fields of the schema `Subscription`. The fields are listed one by one, because V8
 * keeps a row with this many columns as a dictionary object. Spreading a dictionary object takes
 * ten times as long as writing its JSON.
 */
export function subscriptionView(row: SubscriptionRow) {
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
    nextAmount: nextAmount(row)?.toString() ?? null,
    discount: discountView(row),
    pausedAt: row.pausedAt,
    cancelRequestedAt: row.cancelRequestedAt,
    cancelRequestedBy: row.cancelRequestedBy,
    cancelledAt: row.cancelledAt,
    delegationRevokedAt: row.delegationRevokedAt,
    endReason: row.endReason,
    reinstatedAt: row.reinstatedAt,
    externalId: row.externalId,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    ownIdsFrom: row.ownIdsFrom,
    duplicateOf: row.duplicateOf,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
  };
}
