// Marks the events of payments whose attempt Postgres has lost, for example in a failover. Before
// the loss, webhook receivers may have received another event about such a payment
// (docs/contract.md).
import { findUncommitted } from '../../db/operating/history.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { SubscriptionUpdate } from './transitions.ts';

type NewEvent = SubscriptionUpdate['events'][number];

/**
 * Returns a function that adds `recovered` to the event of a keeper's payment if the database has
 * no attempt with the payment's signature. Postgres has then lost the attempt, because a keeper
 * commits each attempt before the keeper sends the transaction.
 */
export async function markRecovered(
  sql: Queryable,
  outcomes: readonly { readonly update: SubscriptionUpdate }[],
): Promise<(event: NewEvent) => NewEvent> {
  const signatures = outcomes.flatMap(({ update }) =>
    update.payments.flatMap(({ status, source, txSignature }) =>
      status === 'succeeded' && source === 'keeper' && txSignature !== null ? [txSignature] : [],
    ),
  );
  const lost = await findUncommitted(sql, [...new Set(signatures)]);
  return (event) => {
    const { type, extra } = event;
    const signature = extra?.txSignature;
    const isLost = typeof signature === 'string' && lost.has(signature);
    return type === 'payment_success' && isLost
      ? { ...event, extra: { ...extra, recovered: true } }
      : event;
  };
}
