// A subscription as the API shows it: its row, with what is derived from it. Fields that no schema has are not written.
import type { SubscriptionRow } from '../db/registrations.ts';
import { accessUntil } from '../domain/access.ts';
import { nextAmount } from '../domain/price.ts';
import { discountView } from './discount.ts';

export type SubscriptionView = Omit<SubscriptionRow, 'metadata'> & {
  metadata: Record<string, string>;
  accessUntil: Date | null;
  /** What the next payment takes; null when none is due. */
  nextAmount: string | null;
  discount: ReturnType<typeof discountView>;
};

/** The fields of the schema `Subscription`, which says what is shown of them. */
export function subscriptionView(row: SubscriptionRow): SubscriptionView {
  return {
    ...row,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    accessUntil: accessUntil(row),
    nextAmount: nextAmount(row)?.toString() ?? null,
    discount: discountView(row),
  };
}
