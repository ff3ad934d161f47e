import type { Queryable } from './connect.ts';

/** A leased subscription and the id of the claim that leased it. */
export interface ClaimKey {
  id: string;
  claimId: string;
}

/** Subscriptions that are held under one claim. */
export const heldUnder = (claimId: string, held: readonly { id: string }[]): ClaimKey[] =>
  held.map(({ id }) => ({ id, claimId }));

/** The claims as a table c (id, claim_id). */
export function claimed(sql: Queryable, claims: readonly ClaimKey[]) {
  const given = claims.map(({ id, claimId }) => ({ id, claim_id: claimId }));
  return sql`json_to_recordset(${JSON.stringify(given)}::text::json) as c (id uuid, claim_id uuid)`;
}

/**
 * The row under its renewed lease: with the version after the renewal, unless the row had changed
 * before.
 */
export const renewed = <Row extends { readonly version: string }>(
  row: Row,
  { before, after }: { readonly before: string; readonly after: string },
): Row => (before === row.version ? { ...row, version: after } : row);
