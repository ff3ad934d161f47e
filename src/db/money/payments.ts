// Payments. Each paid period has one succeeded row. Each extra pull in a paid period has one more
// succeeded row. Each failed attempt has one failed row.
import { creditUnmatched } from '../invoices/credits.ts';
import { giveBackUnmatched } from '../invoices/given-back.ts';
import type { Invoice } from '../invoices/invoices.ts';
import { creditedPart, isTimeTaken } from '../invoices/notes.ts';
import type { Queryable } from '../postgres/connect.ts';
import { among, type Fragment, type Page, type Span } from '../postgres/lists.ts';
import { recordset } from '../postgres/recordset.ts';
import { paidBy } from '../postgres/signatures.ts';
import { subscriptionsOf } from '../subscriptions/customers.ts';
import { isRefundedInFull } from '../subscriptions/refunded.ts';

export interface PaymentRow {
  /** Null for a pull of a keeper beyond the one that paid the period. */
  invoice: Invoice | null;
  appId: string;
  planId: string;
  subscriptionId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  status: 'succeeded' | 'failed';
  /**
   * `keeper` and `foreign` (another puller): the payment was pulled. `credit`: credit from a change
   * of plan paid for the whole period, so nothing was pulled.
   */
  source: 'keeper' | 'foreign' | 'credit';
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
   * made the payment. It is part of amountNet.
   */
  feeOwed: bigint;
  txSignature: string | null;
  failureReason: string | null;
  attempt: number;
  occurredAt: Date;
}

/**
 * Inserts payments. `invoiceIds` has the ids of their invoices. Pulls without an invoice become
 * credit of the customer, whose balance the caller has locked: returns the ids of these movements.
 * Throws a unique violation when a period, an invoice or a pull already has a succeeded payment.
 */
export async function insertPayments(
  sql: Queryable,
  payments: readonly PaymentRow[],
  invoiceIds: ReadonlyMap<Invoice, string>,
): Promise<string[]> {
  const named = payments.map(({ invoice, ...payment }) => ({
    ...payment,
    invoiceId: invoice && invoiceIds.get(invoice),
  }));
  const rows = recordset(sql, named, {
    ...{
      invoiceId: 'uuid',
      appId: 'uuid',
      planId: 'uuid',
      subscriptionId: 'uuid',
      subscriptionPda: 'text',
    },
    ...{ subscriberWallet: 'text', status: 'text', source: 'text', further: 'bool' },
    ...{ periodStart: 'timestamptz', periodEnd: 'timestamptz', amountGross: 'int8' },
    ...{ platformFee: 'int8', amountNet: 'int8', feeOwed: 'int8' },
    ...{ txSignature: 'text', failureReason: 'text', attempt: 'int' },
    occurredAt: 'timestamptz',
  });
  await sql`
    insert into payments (invoice_id, app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet,
      status, source, further, period_start, period_end,
      amount_gross, platform_fee, amount_net, fee_owed, tx_signature,
        failure_reason, attempt, occurred_at)
    select * from (${rows}) as given`;
  const unmatched = payments
    .filter(isUnmatched)
    .flatMap(({ subscriptionPda, txSignature }) =>
      txSignature === null ? [] : [{ subscriptionPda, txSignature }],
    );
  if (unmatched.length === 0) return [];
  await giveBackUnmatched(sql, unmatched);
  return creditUnmatched(
    sql,
    unmatched.map(({ txSignature }) => txSignature),
  );
}

/** Whether a payment is a pull of a keeper that paid no invoice. */
export const isUnmatched = ({ status, source, invoice }: PaymentRow): boolean =>
  status === 'succeeded' && source === 'keeper' && invoice === null;

/** Finds the succeeded payments of the transactions with these signatures. */
export function readRecorded(
  sql: Queryable,
  signatures: string[],
): Promise<{ txSignature: string; subscriptionPda: string; subscriptionId: string }[]> {
  return sql<{ txSignature: string; subscriptionPda: string; subscriptionId: string }[]>`
    select tx_signature, subscription_pda, subscription_id from payments p
    where ${paidBy(sql, signatures)} and p.status = 'succeeded'`;
}

/** A succeeded payment, the record of one pull on chain. */
export type PulledRow = Pick<
  PaymentRow,
  | 'subscriptionPda'
  | 'periodStart'
  | 'periodEnd'
  | 'amountGross'
  | 'platformFee'
  | 'amountNet'
  | 'occurredAt'
> & {
  source: 'keeper' | 'foreign';
  txSignature: string;
  isRefunded: boolean;
  /** Whether a change of plan has made its unused part credit. */
  isCredited: boolean;
};

/**
 * Reads the succeeded payments of these addresses and periods. An address may have several rows in
 * `subscriptions`. The payments of all these rows are read.
 */
export function readPulled(
  sql: Queryable,
  periods: { subscriptionPda: string; periodStart: Date }[],
): Promise<PulledRow[]> {
  const rows = recordset(sql, periods, { subscriptionPda: 'text', periodStart: 'timestamptz' });
  return sql<PulledRow[]>`
    select s.subscription_pda, p.source, p.period_start, p.period_end, p.amount_gross,
      p.platform_fee, p.amount_net, ${isRefundedInFull(sql, 'p')} as is_refunded, p.tx_signature,
      p.occurred_at, ${creditedPart(sql)} is not null as is_credited
    from (${rows}) as v
      join subscriptions s on s.subscription_pda = v.subscription_pda
      join payments p on p.subscription_id = s.id and p.period_start = v.period_start
    where p.status = 'succeeded' and p.source <> 'credit'`;
}

/**
 * Finds which periods of these addresses a credit has paid in full. If a change of plan took the
 * credit of a period back, the period counts as paid only for the registration that had this
 * credit. Another registration of the account pays the rest of the period.
 */
export function readPaidByCredit(
  sql: Queryable,
  periods: readonly { subscriptionId: string; subscriptionPda: string; periodStart: Date }[],
): Promise<{ subscriptionPda: string; periodStart: Date }[]> {
  const rows = recordset(sql, periods, {
    ...{ subscriptionId: 'uuid', subscriptionPda: 'text', periodStart: 'timestamptz' },
  });
  return sql<{ subscriptionPda: string; periodStart: Date }[]>`
    select s.subscription_pda, p.period_start
    from (${rows}) as v
      join subscriptions s on s.subscription_pda = v.subscription_pda
      join payments p on p.subscription_id = s.id and p.period_start = v.period_start
    where p.status = 'succeeded' and p.source = 'credit'
      and (not ${isTimeTaken(sql)} or s.id = v.subscription_id)`;
}

/** A payment for the lists of merchants and subscribers. */
export interface TransactionRow {
  id: string;
  /** Null for a pull that no invoice explains. */
  invoiceId: string | null;
  /** The reason of its invoice; null without one. */
  reason: Invoice['reason'] | null;
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
  /**
   * Credit that was spent on the period in addition to amountGross. A change of plan made this
   * credit.
   */
  creditSpent: bigint;
  /** The part of the payment that was unused and became credit in a change of plan. */
  amountCredited: bigint;
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
  subscriberWallet: string | null;
  /** The external id that the subscription has now. */
  externalId: string | null;
  /** Lower bound of occurredAt, inclusive. */
  since: Date | null;
  /** Upper bound of occurredAt, exclusive. */
  until: Date | null;
}

export const anyTransaction: TransactionFilters = {
  status: null,
  planId: null,
  subscriptionId: null,
  subscriberWallet: null,
  externalId: null,
  since: null,
  until: null,
};

/**
 * Lists an app's payments, newest occurred_at first. With a subscriptionId or a customer, the query
 * reads the index by subscription; otherwise it reads the index by app.
 */
export function listTransactions(
  sql: Queryable,
  appId: string,
  filters: TransactionFilters,
  { after, limit }: Page,
): Promise<TransactionRow[]> {
  const { subscriptionId } = filters;
  if (isOfCustomer(filters))
    return listOfCustomer(sql, sql`array[${appId}::uuid]`, filters, { after, limit });
  const key =
    subscriptionId === null
      ? sql`app_id = ${appId}`
      : sql`subscription_id = (select id from subscriptions where id = ${subscriptionId}
        and app_id = ${appId})`;
  return listFound(
    sql,
    sql`select ${readColumns(sql)} from payments where ${[key, ...restOf(sql, filters, after)]}
      order by occurred_at desc, id desc limit ${limit}`,
  );
}

const isOfCustomer = ({ subscriberWallet, externalId }: TransactionFilters): boolean =>
  subscriberWallet !== null || externalId !== null;

/** Lists the payments of a customer's subscriptions. `apps` is an SQL array of app ids. */
function listOfCustomer(
  sql: Queryable,
  apps: Fragment,
  { subscriptionId, ...filters }: TransactionFilters,
  { after, limit }: Page,
): Promise<TransactionRow[]> {
  const only = subscriptionId === null ? sql`` : sql`where theirs.id = ${subscriptionId}`;
  return listFound(
    sql,
    sql`select each.* from (${subscriptionsOf(sql, apps, filters)}) as theirs cross join lateral (
        select ${readColumns(sql)} from payments
        where ${[sql`subscription_id = theirs.id`, ...restOf(sql, filters, after)]}
        order by occurred_at desc, id desc limit ${limit}
      ) as each ${only}
      order by each.occurred_at desc, each.id desc limit ${limit}`,
  );
}

/**
 * Reads the payments that the query `found` selects, with plan names and the subscriptions' data.
 * `found` selects at most one page of rows from `payments`.
 */
const listFound = (sql: Queryable, found: Fragment) => sql<TransactionRow[]>`
  select ${transactionColumns(sql)}
  from (${found}) as p
    join plans on plans.id = p.plan_id join subscriptions s on s.id = p.subscription_id
    left join invoices i on i.id = p.invoice_id
  order by p.occurred_at desc, p.id desc`;

/** Lists the payments of all apps of a merchant, newest occurred_at first. */
export function listTransactionsOfMerchant(
  sql: Queryable,
  merchantId: string,
  filters: TransactionFilters,
  { after, limit }: Page,
): Promise<TransactionRow[]> {
  const { subscriptionId } = filters;
  if (isOfCustomer(filters)) {
    const apps = sql`array(select id from apps where merchant_id = ${merchantId})`;
    return listOfCustomer(sql, apps, filters, { after, limit });
  }
  const conditions = [
    sql`app_id = app.id`,
    ...(subscriptionId === null
      ? []
      : [sql`and subscription_id is not distinct from ${subscriptionId}::uuid`]),
    ...restOf(sql, filters, after),
  ];
  return listFound(
    sql,
    sql`select each.* from apps app cross join lateral (
        select ${readColumns(sql)} from payments where ${conditions}
        order by occurred_at desc, id desc limit ${limit}
      ) as each
      where app.merchant_id = ${merchantId} order by each.occurred_at desc, each.id desc
        limit ${limit}`,
  );
}

export async function findTransaction(
  sql: Queryable,
  id: string,
): Promise<TransactionRow | undefined> {
  const [row] = await sql<TransactionRow[]>`
    select ${transactionColumns(sql)}
    from payments p join plans on plans.id = p.plan_id join subscriptions s
      on s.id = p.subscription_id left join invoices i on i.id = p.invoice_id
    where p.id = ${id}`;
  return row;
}

/** The columns of payments that transactionColumns reads. */
const readColumns = (sql: Queryable) => sql`
  id, invoice_id, app_id, plan_id, subscription_id, subscription_pda, subscriber_wallet, status, amount_gross,
  platform_fee, amount_net, amount_refunded, further, tx_signature,
  failure_reason, attempt, period_start, period_end, occurred_at, created_at`;

const transactionColumns = (sql: Queryable) => sql`
  p.id, p.invoice_id, i.reason, p.app_id, p.plan_id, plans.name as plan_name, p.subscription_id, p.subscription_pda,
    p.subscriber_wallet, p.status,
  p.amount_gross, p.platform_fee, p.amount_net, p.amount_refunded,
    case when p.status = 'succeeded' then coalesce(i.credit_applied, 0) else 0 end as credit_spent,
    coalesce(${creditedPart(sql)}, 0) as amount_credited, p.further, p.tx_signature,
    p.failure_reason, p.attempt, p.period_start, p.period_end,
  p.occurred_at, p.created_at, s.external_id, s.metadata::text as metadata,
  s.own_ids_from`;

/**
 * SQL conditions for status, plan, time and page. They do not decide which index Postgres uses; the
 * conditions for app, subscription and customer, which the callers add, decide this.
 */
function restOf(
  sql: Queryable,
  { status, planId, since, until }: Pick<TransactionFilters, 'status' | 'planId' | keyof Span>,
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
