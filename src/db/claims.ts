import type { Queryable } from './connect.ts';

/** A subscription and the claim under which it is held. */
export interface Held {
  id: string;
  claimId: string;
}

/** Subscriptions that are held under one claim. */
export const heldUnder = (claimId: string, held: readonly { id: string }[]): Held[] =>
  held.map(({ id }) => ({ id, claimId }));

/** The claims as a table c (id, claim_id). */
export function claimed(sql: Queryable, claims: readonly Held[]) {
  const given = claims.map(({ id, claimId }) => ({ id, claim_id: claimId }));
  return sql`json_to_recordset(${JSON.stringify(given)}::text::json) as c (id uuid, claim_id uuid)`;
}
