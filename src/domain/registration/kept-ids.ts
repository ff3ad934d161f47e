// The merchant's ids that the new subscription of a change of plan keeps.
import type { OwnIdsSource } from '../../db/subscriptions/merchant-edits.ts';
import type { ReplacedRow } from '../../db/subscriptions/plan-changes.ts';

interface KeptIds {
  externalId: string | null;
  metadata: Record<string, string>;
  ownIdsFrom: OwnIdsSource | null;
}

/**
 * Returns the externalId and metadata that the new subscription keeps from the replaced
 * subscription. Returns nothing if the new subscription has an externalId or metadata of its own.
 * Exception: what the subscriber sets does not replace what the merchant or a checkout session set,
 * to which the customer's credit belongs.
 */
export function keptIds(
  row: ReplacedRow | undefined,
  given: {
    readonly externalId?: string | null | undefined;
    readonly metadata?: object | undefined;
    readonly ownIdsFrom?: OwnIdsSource | null | undefined;
  },
): Partial<KeptIds> {
  const { externalId = null, metadata = {}, ownIdsFrom = null } = given;
  if (row === undefined) return {};
  const isMerchants = row.ownIdsFrom === 'merchant' || row.ownIdsFrom === 'checkout';
  const hasOwn = externalId !== null || Object.keys(metadata).length > 0;
  if (hasOwn && !(ownIdsFrom === 'subscriber' && isMerchants)) return {};
  return {
    externalId: row.externalId,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    ownIdsFrom: row.ownIdsFrom,
  };
}
