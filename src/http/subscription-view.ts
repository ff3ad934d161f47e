// A subscription as the API shows it: its row, with what is derived from it.
import type { SubscriptionRow } from '../db/registrations.ts';
import { accessUntil } from '../domain/access.ts';

export type SubscriptionView = Omit<SubscriptionRow, 'metadata'> & {
  metadata: Record<string, string>;
  accessUntil: Date | null;
};

/** The fields of the schema `Subscription`, which says what is shown of them. */
export function subscriptionView(row: SubscriptionRow): SubscriptionView {
  return {
    ...row,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    accessUntil: accessUntil(row),
  };
}
