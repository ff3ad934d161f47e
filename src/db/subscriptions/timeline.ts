import bs58 from 'bs58';
import type { Queryable } from '../postgres/connect.ts';

export interface TimelineRow {
  id: string;
  kind: 'event' | 'payment' | 'refund' | 'attempt' | 'delivery';
  at: Date;
  /** The type of an event; the status of a payment, refund, attempt or delivery. */
  what: string;
  /** Amount of a payment, a refund or an attempt in USDC base units. */
  amount: string | null;
  /** The sum of a payment's finalized refunds; null for every other entry. */
  amountRefunded: string | null;
  signature: string | null;
  /** Failure reason of a payment or attempt; event type of a delivery. */
  detail: string | null;
  /** The endpoint of a delivery. */
  webhookId: string | null;
}

const MAX_ROWS = 200;

/**
 * Lists the newest 200 entries of a subscription, newest first: events, payments, their refunds,
 * deliveries, and attempts that have not landed.
 */
export async function listTimeline(sql: Queryable, subscriptionId: string): Promise<TimelineRow[]> {
  // A partial index finds the deliveries of replays by their events. Other deliveries have no such
  // index. They are stored together with their events, so their ids are close to the events' ids. A
  // range of ids finds them.
  const rows = await sql<
    (Omit<TimelineRow, 'signature'> & { signature: Buffer | null; signed: string | null })[]
  >`
    with recent as (
      select id, app_id, type from events where subscription_id = ${subscriptionId}
        order by sequence desc limit ${MAX_ROWS}
    ), delivered as (
      select d.id, d.created_at, d.status, d.event_type, d.endpoint_id
      from recent join webhook_endpoints w on w.app_id = recent.app_id
        join all_deliveries d on d.endpoint_id = w.id and d.event_id = recent.id and not d.replayed
          and d.id >= first_id_at(made_at(recent.id) - interval '1 s')
            and d.id < first_id_at(made_at(recent.id) + interval '10 s')
      union all
      select d.id, d.created_at, d.status, d.event_type, d.endpoint_id
      from recent join all_deliveries d on d.event_id = recent.id and d.replayed
    ), paid as (
      select id, occurred_at, status, amount_gross, amount_refunded, tx_signature, failure_reason
      from payments where subscription_id = ${subscriptionId} order by occurred_at desc
        limit ${MAX_ROWS}
    )
    select * from (
      select id, 'event' as kind, made_at(id) as at, type as what, null::text as amount,
        null::text as amount_refunded, null::bytea as signature, null::text as signed,
        null as detail, null::uuid as webhook_id
      from recent
      union all
      select id, 'delivery', created_at, status, null, null, null, null, event_type, endpoint_id
        from delivered
      union all
      select id, 'payment', occurred_at, status, amount_gross::text, amount_refunded::text, null,
        tx_signature, failure_reason, null
        from paid
      union all
      select r.id, 'refund', coalesce(r.occurred_at, r.created_at), r.status, r.amount::text, null,
        null, r.tx_signature, null, null
        from paid join refunds r on r.payment_id = paid.id
      union all
      select a.id, 'attempt', a.created_at, a.state, a.amount_gross::text, null, t.signature, null,
        a.error, null
      from (
        select a.id, a.created_at, a.state, a.amount_gross, a.error, a.transaction_id
        from subscriptions s join payment_attempts a on a.subscription_pda =
          s.subscription_pda and a.subscription_id = s.id
        where s.id = ${subscriptionId} and a.state = 'open'
        union all
        (select id, created_at, state, amount_gross, error, transaction_id from payment_attempts
        where subscription_id = ${subscriptionId} and state in ('failed', 'expired', 'unexplained')
          order by id desc limit ${MAX_ROWS})
      ) as a join transactions t on t.id = a.transaction_id
    ) as entries order by at desc, id desc limit ${MAX_ROWS}`;
  return rows.map(({ signature, signed, ...row }) => ({
    ...row,
    signature: signature === null ? signed : bs58.encode(signature),
  }));
}
