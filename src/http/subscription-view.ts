// A subscription as the API shows it: its row, with what is derived from it.
import type { SubscriptionRow } from '../db/registrations.ts';
import { accessUntil } from '../domain/access.ts';

export type SubscriptionView = Omit<SubscriptionRow, 'metadata' | 'graceHours'> & {
  metadata: Record<string, string>;
  accessUntil: Date | null;
};

/** The fields of the schema `Subscription`. */
export function subscriptionView(row: SubscriptionRow): SubscriptionView {
  const { metadata, graceHours, ...fields } = row;
  return {
    ...fields,
    metadata: JSON.parse(metadata) as Record<string, string>,
    accessUntil: accessUntil({ ...fields, graceHours }),
  };
}
