// Monthly statement of an app: sums per day, and one line per payment, refund or sponsored
// transaction.
import bs58 from 'bs58';
import { sponsoredLamports, sponsoredOf } from '../offers/sponsor-budgets.ts';
import type { Queryable } from '../postgres/connect.ts';
import { FIRST_ID } from '../postgres/ids.ts';
import { moneyOf } from './analytics.ts';

export interface MonthRange {
  from: Date;
  /** The start of the next month. */
  to: Date;
}

/** Sums of one UTC day. Amounts are base units as text, because a sum can exceed 2^63. */
export interface StatementDay {
  day: Date;
  gross: string;
  fees: string;
  net: string;
  refunded: string;
  /** Lamports that the operator paid for sponsored transactions (sponsoredLamports). */
  sponsoredLamports: string;
  payments: number;
  refunds: number;
}

/**
 * Returns one row for each day of the month. Uses the SQL of the analytics for payments and
 * refunds, so that the statement and the analytics have the same sums.
 */
export function readStatementDays(
  sql: Queryable,
  appId: string,
  range: MonthRange,
): Promise<StatementDay[]> {
  const { from, to } = range;
  return sql<StatementDay[]>`
    with days as (
      select day from generate_series(${from}::timestamptz,
        ${to}::timestamptz - interval '1 microsecond', interval '1 day') as day
    ), ${moneyOf(sql, appId, range)}, sponsored as (
      select date_trunc('day', s.ended_at, 'UTC') as day, sum(${sponsoredLamports(sql)}) as lamports
      from ${sponsoredOf(sql, appId, range)} group by 1
    )
    select days.day, coalesce(money.gross, 0)::text as gross, coalesce(money.fees, 0)::text as fees,
      coalesce(money.net, 0)::text as net, coalesce(returned.refunded, 0)::text as refunded,
      coalesce(sponsored.lamports, 0)::text as sponsored_lamports,
      coalesce(money.succeeded, 0)::int as payments, coalesce(returned.refunds, 0)::int as refunds
    from days left join money on money.day = days.day left join returned on returned.day = days.day
      left join sponsored on sponsored.day = days.day
    order by days.day`;
}

export interface StatementLine {
  id: string;
  kind: 'payment' | 'refund' | 'sponsored';
  occurredAt: Date;
  /** `occurredAt` as text, to keep its microseconds. */
  at: string;
  planName: string | null;
  subscriptionId: string | null;
  externalId: string | null;
  wallet: string;
  /**
   * `gross`, `fee`, `net`, `refunded` and `creditSpent` are base units. Each is 0 for the kinds of
   * lines to which it does not apply.
   */
  gross: bigint;
  fee: bigint;
  net: bigint;
  refunded: bigint;
  /** The part of the price that credit of the customer paid. Not included in `gross`. */
  creditSpent: bigint;
  lamports: bigint;
  /** Null only if a credit paid for the whole period. */
  txSignature: string | null;
}

/** The last line of the previous page. */
export type StatementCursor = Pick<StatementLine, 'at' | 'id'>;

/** Lists the lines of a month that come after the line `after`, oldest first. */
export async function listStatementLines(
  sql: Queryable,
  appId: string,
  range: MonthRange,
  { after, limit }: { after: StatementCursor | null; limit: number },
): Promise<StatementLine[]> {
  const { from, to } = range;
  const since = sql`${after?.at ?? from.toISOString()}::text::timestamptz`;
  const id = after?.id ?? FIRST_ID;
  const rows = await sql<StatementLine[]>`
    with paid as (
      select id, 'payment' as kind, occurred_at, plan_id, subscription_id, subscriber_wallet,
        amount_gross as gross, platform_fee as fee, amount_net as net, 0::int8 as refunded,
        invoice_id, 0::int8 as lamports, tx_signature
      from payments where app_id = ${appId} and status = 'succeeded' and occurred_at < ${to}
        and (occurred_at, id) > (${since}, ${id}::uuid) order by occurred_at, id limit ${limit}
    ), returned as (
      select r.id, 'refund', r.occurred_at, p.plan_id, r.subscription_id, p.subscriber_wallet,
        0::int8, 0::int8, 0::int8, r.amount, null::uuid, 0::int8, r.tx_signature
      from refunds r join payments p on p.id = r.payment_id
      where r.app_id = ${appId} and r.status = 'succeeded' and r.occurred_at < ${to}
        and (r.occurred_at, r.id) > (${since}, ${id}::uuid)
      order by r.occurred_at, r.id limit ${limit}
    ), sponsored as (
      select o.offer_id, 'sponsored', o.ended_at, o.plan_id, o.subscription_id, o.wallet, 0::int8,
        0::int8, 0::int8, 0::int8, null::uuid, o.lamports, encode(t.signature, 'hex')
      from (select s.offer_id, s.ended_at, s.plan_id, s.subscription_id, s.wallet, s.transaction_id,
            ${sponsoredLamports(sql)} as lamports from ${sponsoredOf(sql, appId, range)}
          and (s.ended_at, s.offer_id) > (${since}, ${id}::uuid)
          order by s.ended_at, s.offer_id limit ${limit}) as o
        join transactions t on t.id = o.transaction_id
    ), lines as (
      select * from paid union all select * from returned union all select * from sponsored
      order by occurred_at, id limit ${limit}
    )
    select l.id, l.kind, l.occurred_at, l.occurred_at::text as at, plans.name as plan_name,
      l.subscription_id, s.external_id, l.subscriber_wallet as wallet, l.gross, l.fee, l.net,
      l.refunded, coalesce(i.credit_applied, 0) as credit_spent, l.lamports, l.tx_signature
    from lines l left join plans on plans.id = l.plan_id
      left join invoices i on i.id = l.invoice_id
      left join subscriptions s on s.id = l.subscription_id
    order by l.occurred_at, l.id`;
  return rows.map((row) =>
    row.kind === 'sponsored' && row.txSignature !== null
      ? { ...row, txSignature: bs58.encode(Buffer.from(row.txSignature, 'hex')) }
      : row,
  );
}
