// What happened to money: one succeeded row per paid period (and one for each further pull of somebody else), one failed row per failed attempt.
import { flags, integers, literal, times } from './arrays.ts';
import type { Queryable } from './connect.ts';

export interface PaymentRow {
  appId: string;
  planId: string;
  subscriptionId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  status: 'succeeded' | 'failed';
  source: 'keeper' | 'foreign';
  /** Somebody else pulled once more in a period that was paid already. */
  further: boolean;
  periodStart: Date;
  periodEnd: Date;
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
  txSignature: string | null;
  failureReason: string | null;
  attempt: number;
  occurredAt: Date;
}

/** Records payments. Throws on a second success of a period, or of a pull (unique indexes). */
export async function insertPayments(sql: Queryable, payments: PaymentRow[]): Promise<void> {
  await sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, source, further, period_start, period_end,
      amount_gross, platform_fee, amount_net, tx_signature, failure_reason, attempt, occurred_at)
    select v.app_id, v.plan_id, v.subscription_id, v.subscription_pda, v.subscriber_wallet, v.status, v.source, v.further = 1, v.period_start,
      v.period_end, v.amount_gross, v.platform_fee, v.amount_net, v.tx_signature, v.failure_reason, v.attempt, v.occurred_at
    from unnest(
      ${literal(payments.map((row) => row.appId))}::uuid[], ${literal(payments.map((row) => row.planId))}::uuid[],
      ${literal(payments.map((row) => row.subscriptionId))}::uuid[], ${literal(payments.map((row) => row.subscriptionPda))}::text[],
      ${literal(payments.map((row) => row.subscriberWallet))}::text[], ${literal(payments.map((row) => row.status))}::text[],
      ${literal(payments.map((row) => row.source))}::text[], ${literal(flags(payments.map((row) => row.further)))}::int[], ${literal(times(payments.map((row) => row.periodStart)))}::timestamptz[],
      ${literal(times(payments.map((row) => row.periodEnd)))}::timestamptz[], ${literal(integers(payments.map((row) => row.amountGross)))}::int8[],
      ${literal(integers(payments.map((row) => row.platformFee)))}::int8[], ${literal(integers(payments.map((row) => row.amountNet)))}::int8[],
      ${literal(payments.map((row) => row.txSignature))}::text[], ${literal(payments.map((row) => row.failureReason))}::text[],
      ${literal(payments.map((row) => row.attempt))}::int[], ${literal(times(payments.map((row) => row.occurredAt)))}::timestamptz[]
    ) as v (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, source, further, period_start, period_end,
      amount_gross, platform_fee, amount_net, tx_signature, failure_reason, attempt, occurred_at)`;
}

/** Which pulls are recorded: successes by transaction and subscription account. */
export function readRecorded(
  sql: Queryable,
  signatures: string[],
): Promise<{ txSignature: string; subscriptionPda: string; subscriptionId: string }[]> {
  return sql<{ txSignature: string; subscriptionPda: string; subscriptionId: string }[]>`
    select tx_signature, subscription_pda, subscription_id from payments where tx_signature = any(${literal(signatures)}::text[]) and status = 'succeeded'`;
}

/** One pull, as it is in the books. */
export type PulledRow = Pick<
  PaymentRow,
  'subscriptionPda' | 'source' | 'periodStart' | 'periodEnd' | 'amountGross' | 'platformFee' | 'amountNet' | 'occurredAt'
> & { txSignature: string };

/** What is recorded as pulled in these periods of on-chain subscriptions, whatever registration it was for. */
export function readPulled(sql: Queryable, periods: { subscriptionPda: string; periodStart: Date }[]): Promise<PulledRow[]> {
  return sql<PulledRow[]>`
    select s.subscription_pda, p.source, p.period_start, p.period_end, p.amount_gross, p.platform_fee, p.amount_net, p.tx_signature, p.occurred_at
    from unnest(${periods.map(({ subscriptionPda }) => subscriptionPda)}::text[], ${times(periods.map(({ periodStart }) => periodStart))}::timestamptz[])
        as v (subscription_pda, period_start)
      join subscriptions s on s.subscription_pda = v.subscription_pda
      join payments p on p.subscription_id = s.id and p.period_start = v.period_start
    where p.status = 'succeeded'`;
}

/** Which periods of these subscriptions are recorded as paid, among the given starts. */
export function readPaidPeriods(
  sql: Queryable,
  periods: { subscriptionId: string; periodStart: Date }[],
): Promise<{ subscriptionId: string; periodStart: Date; txSignature: string }[]> {
  return sql<{ subscriptionId: string; periodStart: Date; txSignature: string }[]>`
    select p.subscription_id, p.period_start, p.tx_signature
    from payments p
    join unnest(${literal(periods.map(({ subscriptionId }) => subscriptionId))}::uuid[], ${literal(times(periods.map(({ periodStart }) => periodStart)))}::timestamptz[])
      as v (subscription_id, period_start) on p.subscription_id = v.subscription_id and p.period_start = v.period_start
    where p.status = 'succeeded'`;
}
