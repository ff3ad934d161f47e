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
 */
export function keptIds(
  row: ReplacedRow | undefined,
  given: {
    readonly externalId?: string | null | undefined;
    readonly metadata?: object | undefined;
  },
): Partial<KeptIds> {
  const { externalId = null, metadata = {} } = given;
  if (row === undefined || externalId !== null || Object.keys(metadata).length > 0) return {};
  return {
    externalId: row.externalId,
    metadata: JSON.parse(row.metadata) as Record<string, string>,
    ownIdsFrom: row.ownIdsFrom,
  };
}
