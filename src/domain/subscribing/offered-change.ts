// Finds the change of plan that a landed transaction may have made, in the offers to the wallet
// that signed the transaction.
import type { ChangeWhen } from '../../db/offered-transactions.ts';
import { findOfferedChange, readReplaced, type ReplacedRow } from '../../db/plan-changes.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { OwnIdsSource } from '../../db/subscription-changes.ts';

/** A change of plan in an offer. `replaces` is the id of the replaced subscription. */
export interface OfferedChange {
  readonly replaces: string;
  readonly when: ChangeWhen;
}

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

/**
 * Returns the offered change of plan with the row of the replaced subscription. If the
 * transaction's offer is known, `change` is the change in that offer, or null if that offer has no
 * change. If the offer is not known, `change` is undefined. The change is then taken from the
 * wallet's newest unused offer. If that offer has no change, older offers are not searched.
 */
export async function offeredChange(
  sql: Queryable,
  {
    wallet,
    subscriptionPda,
    change,
  }: { wallet: string; subscriptionPda: string; change?: OfferedChange | null | undefined },
): Promise<{ row: ReplacedRow; when: ChangeWhen } | undefined> {
  const offered =
    change === undefined ? await findOfferedChange(sql, wallet, subscriptionPda) : change;
  if (offered === undefined || offered === null) return undefined;
  const row = await readReplaced(sql, offered.replaces);
  return row === undefined ? undefined : { row, when: offered.when };
}
