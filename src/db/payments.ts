// Payments. Each paid period has one succeeded row, plus one succeeded row for each further pull in
// that period. Each failed attempt has one failed row.
import type { Queryable } from './postgres/connect.ts';
import { among, type Fragment, type Page } from './postgres/lists.ts';

export interface PaymentRow {
  appId: string;
  planId: string;
  subscriptionId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  status: 'succeeded' | 'failed';
  source: 'keeper' | 'foreign';
  /**
   * True for an extra pull, by the keeper or by another puller, in a period that is already paid.
   */
  further: boolean;
  periodStart: Date;
  periodEnd: Date;
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
  /**
   * The fee that was not collected, because no treasury could receive it or because another puller
   * made the payment. amountGross does not include it.
   */
  feeOwed: bigint;
  txSignature: string | null;
  failureReason: string | null;
  attempt: number;
  occurredAt: Date;
}

/**
 * Inserts payments. Throws a unique violation when a period or a pull already has a succeeded
 * payment.
 */
export async function insertPayments(
  sql: Queryable,
  payments: readonly PaymentRow[],
): Promise<void> {
  const given = payments.map((row) => ({
    app_id: row.appId,
    plan_id: row.planId,
    subscription_id: row.subscriptionId,
    subscription_pda: row.subscriptionPda,
    subscriber_wallet: row.subscriberWallet,
    status: row.status,
    source: row.source,
    further: row.further,
    period_start: row.periodStart,
    period_end: row.periodEnd,
    amount_gross: row.amountGross.toString(),
    platform_fee: row.platformFee.toString(),
    amount_net: row.amountNet.toString(),
    fee_owed: row.feeOwed.toString(),
    tx_signature: row.txSignature,
    failure_reason: row.failureReason,
    attempt: row.attempt,
    occurred_at: row.occurredAt,
  }));
  await sql`
    insert into payments (app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet,
      status, source, further, period_start, period_end,
      amount_gross, platform_fee, amount_net, fee_owed, tx_signature, failure_reason, attempt,
        occurred_at)
    select * from json_to_recordset(${JSON.stringify(given)}::text::json) as given (app_id uuid,
      plan_id uuid, subscription_id uuid,
      subscription_pda text, subscriber_wallet text, status text, source text, further bool,
        period_start timestamptz, period_end timestamptz,
      amount_gross int8, platform_fee int8, amount_net int8, fee_owed int8, tx_signature text,
        failure_reason text, attempt int, occurred_at timestamptz)`;
}

/**
 * Condition on `payments p`: the payment has one of these signatures. The expression matches the
 * index one_payment_per_pull.
 */
export const paidBy = (sql: Queryable, signatures: readonly string[]): Fragment => sql`
  md5(p.tx_signature)::uuid = any(array(select md5(signature)::uuid
    from unnest(${[...signatures]}::text[]) as signature))
  and p.tx_signature = any(${[...signatures]}::text[])`;

/** Finds the succeeded payments of the transactions with these signatures. */
export function readRecorded(
  sql: Queryable,
  signatures: string[],
): Promise<{ txSignature: string; subscriptionPda: string; subscriptionId: string }[]> {
  return sql<{ txSignature: string; subscriptionPda: string; subscriptionId: string }[]>`
    select tx_signature, subscription_pda, subscription_id from payments p
    where ${paidBy(sql, signatures)} and p.status = 'succeeded'`;
}

/** A succeeded payment. It records one pull on chain. */
export type PulledRow = Pick<
  PaymentRow,
  | 'subscriptionPda'
  | 'source'
  | 'periodStart'
  | 'periodEnd'
  | 'amountGross'
  | 'platformFee'
  | 'amountNet'
  | 'occurredAt'
> & { txSignature: string; amountRefunded: bigint };

/**
 * Reads the succeeded payments of these addresses and periods, across all registrations of an
 * address.
 */
export function readPulled(
  sql: Queryable,
  periods: { subscriptionPda: string; periodStart: Date }[],
): Promise<PulledRow[]> {
  const given = periods.map((one) => ({
    subscription_pda: one.subscriptionPda,
    period_start: one.periodStart,
  }));
  return sql<PulledRow[]>`
    select s.subscription_pda, p.source, p.period_start, p.period_end, p.amount_gross,
      p.platform_fee, p.amount_net, p.amount_refunded, p.tx_signature, p.occurred_at
    from json_to_recordset(${JSON.stringify(given)}::text::json) as v (subscription_pda text,
      period_start timestamptz)
      join subscriptions s on s.subscription_pda = v.subscription_pda
      join payments p on p.subscription_id = s.id and p.period_start = v.period_start
    where p.status = 'succeeded'`;
}

/** A payment for the lists of merchants and subscribers. */
export interface TransactionRow {
  id: string;
  appId: string;
  planId: string;
  subscriptionId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  status: 'succeeded' | 'failed';
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
  /** Sum of the payment's finalized refunds. */
  amountRefunded: bigint;
  /** True for an extra pull in a period that is already paid. */
  further: boolean;
  txSignature: string | null;
  failureReason: string | null;
  attempt: number;
  periodStart: Date;
  periodEnd: Date;
  occurredAt: Date;
  createdAt: Date;
  planName: string;
  /** The subscription's current external id. */
  externalId: string | null;
  /** A JSON object as text. */
  metadata: string;
  /** Who set externalId and metadata last; null when neither is set. */
  ownIdsFrom: string | null;
}

export interface TransactionFilters {
  status: readonly string[] | null;
  planId: string | null;
  subscriptionId: string | null;
  /** Lower bound of occurredAt, inclusive. */
  since: Date | null;
  /** Upper bound of occurredAt, exclusive. */
  until: Date | null;
}

export const anyTransaction: TransactionFilters = {
  status: null,
  planId: null,
  subscriptionId: null,
  since: null,
  until: null,
};

/**
 * Lists an app's payments, newest occurred_at first. With a subscriptionId, the query reads the
 * index by subscription; otherwise it reads the index by app.
 */
export function listTransactions(
  sql: Queryable,
  appId: string,
  { status, planId, subscriptionId, since, until }: TransactionFilters,
  { after, limit }: Page,
): Promise<TransactionRow[]> {
  const key =
    subscriptionId === null
      ? sql`app_id = ${appId}`
      : sql`subscription_id = (select id from subscriptions where id = ${subscriptionId}
        and app_id = ${appId})`;
  const filters = { status, planId, since, until };
  return sql<TransactionRow[]>`
    select ${transactionColumns(sql)}
    from (select * from payments where ${[key, ...restOf(sql, filters, after)]}
      order by occurred_at desc, id desc limit ${limit}) as p
      join plans on plans.id = p.plan_id join subscriptions s on s.id = p.subscription_id
    order by p.occurred_at desc, p.id desc`;
}

/** Lists the payments of all apps of a merchant, newest occurred_at first. */
export function listTransactionsOfMerchant(
  sql: Queryable,
  merchantId: string,
  { subscriptionId, ...filters }: TransactionFilters,
  { after, limit }: Page,
): Promise<TransactionRow[]> {
  const conditions = [
    sql`app_id = app.id`,
    ...(subscriptionId === null
      ? []
      : [sql`and subscription_id is not distinct from ${subscriptionId}::uuid`]),
    ...restOf(sql, filters, after),
  ];
  return sql<TransactionRow[]>`
    select ${transactionColumns(sql)}
    from (
      select each.* from apps app cross join lateral (
        select * from payments where ${conditions}
        order by occurred_at desc, id desc limit ${limit}
      ) as each
      where app.merchant_id = ${merchantId} order by each.occurred_at desc, each.id desc
        limit ${limit}
    ) as p
      join plans on plans.id = p.plan_id join subscriptions s on s.id = p.subscription_id
    order by p.occurred_at desc, p.id desc`;
}

export async function findTransaction(
  sql: Queryable,
  id: string,
): Promise<TransactionRow | undefined> {
  const [row] = await sql<TransactionRow[]>`
    select ${transactionColumns(sql)}
    from payments p join plans on plans.id = p.plan_id join subscriptions s
      on s.id = p.subscription_id
    where p.id = ${id}`;
  return row;
}

const transactionColumns = (sql: Queryable) => sql`
  p.id, p.app_id, p.plan_id, plans.name as plan_name, p.subscription_id, p.subscription_pda,
    p.subscriber_wallet, p.status,
  p.amount_gross, p.platform_fee, p.amount_net, p.amount_refunded, p.further, p.tx_signature,
    p.failure_reason, p.attempt, p.period_start, p.period_end,
  p.occurred_at, p.created_at, s.external_id, s.metadata::text as metadata,
  s.own_ids_from`;

/**
 * SQL for all filters except app and subscription. The callers add the filters for app and
 * subscription, because these two filters decide which index Postgres uses.
 */
function restOf(
  sql: Queryable,
  { status, planId, since, until }: Omit<TransactionFilters, 'subscriptionId'>,
  after: string | null,
): Fragment[] {
  return [
    ...among(sql, 'status', status),
    ...(planId === null ? [] : [sql`and plan_id = ${planId}`]),
    ...(since === null ? [] : [sql`and occurred_at >= ${since}`]),
    ...(until === null ? [] : [sql`and occurred_at < ${until}`]),
    ...(after === null
      ? []
      : [sql`and (occurred_at, id) < (select occurred_at, id from payments where id = ${after})`]),
  ];
}
