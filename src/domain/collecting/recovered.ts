// Marks payments that are announced after a loss of history: receivers may have had an event of the
// same payment before (docs/contract.md).
import { findUncommitted } from '../../db/history.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { Draft } from './transitions.ts';

type Happening = Draft['happenings'][number];

/**
 * Adds `recovered` to a payment of our keeper whose transaction the database lacks. Every signature
 * is committed before its transaction is sent, so its commit was lost.
 */
export async function markRecovered(
  sql: Queryable,
  outcomes: readonly { readonly draft: Draft }[],
): Promise<(happening: Happening) => Happening> {
  const signatures = outcomes.flatMap(({ draft }) =>
    draft.payments.flatMap(({ status, source, txSignature }) =>
      status === 'succeeded' && source === 'keeper' && txSignature !== null ? [txSignature] : [],
    ),
  );
  const lost = await findUncommitted(sql, [...new Set(signatures)]);
  return (happening) => {
    const { type, extra } = happening;
    const signature = extra?.txSignature;
    const isLost = typeof signature === 'string' && lost.has(signature);
    return type === 'payment_success' && isLost
      ? { ...happening, extra: { ...extra, recovered: true } }
      : happening;
  };
}
