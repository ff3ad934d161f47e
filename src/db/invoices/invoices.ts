// Invoices: what is owed, drawn up once. Lines and sums never change after the insert.
import bs58 from 'bs58';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';
import { bytesOf } from '../postgres/signatures.ts';
import { spendCredit, spendForOffer } from './credits.ts';
import { isStanding, newestInvoice } from './standing.ts';

/** A line of an invoice. The amount is in base units and negative for a reduction. */
export interface Line {
  readonly kind: 'plan' | 'discount' | 'adjustment';
  readonly amount: bigint;
  /**
   * Why an adjustment was made. `minimum`: a part of a period below the minimum. `room`: the chain
   * allows no pull for it in this period. `pull`: the pull that was found moved another amount.
   */
  readonly source?: 'minimum' | 'room' | 'pull';
}

/** The sums of an invoice in base units. total = creditApplied + amountDue. */
export interface InvoiceSums {
  readonly lines: readonly Line[];
  readonly total: bigint;
  readonly creditApplied: bigint;
  /** The amount to pull. */
  readonly amountDue: bigint;
  /** The discount that reduced it (subscriptions.discount_id). */
  readonly discountId: string | null;
}

/** What changes of an invoice until it is closed. Times are chain time. */
export interface InvoiceState {
  /** The period on chain out of which it is collected. Null until an offer has landed. */
  periodStart: Date | null;
  periodEnd: Date | null;
  /** The time that it pays for; null without cover. */
  coversFrom: Date | null;
  coversTo: Date | null;
  state: 'open' | 'paid' | 'void' | 'uncollectible';
  voidReason: 'forgiven' | 'replaced' | 'ended' | 'offer' | null;
  failedTries: number;
  nextTryAt: Date | null;
  closedAt: Date | null;
}

export interface Invoice extends InvoiceSums, InvoiceState {
  /** Null until it is stored. */
  readonly id: string | null;
  /** Null until it is stored, or until its offer has landed. */
  readonly subscriptionId: string | null;
  /** The customer whose credit it has spent. Null until it is stored, or its offer has landed. */
  readonly customerId: string | null;
  /** `foreign`: of a pull by another puller that pays for no time. */
  readonly reason: 'period' | 'foreign';
  readonly dueAt: Date;
  readonly drawnUpAt: Date;
  /** Whether it is uncollectible and its credit has come back, so that no pull can pay it. */
  readonly isReleased?: boolean;
}

const stateTypes = {
  ...{ periodStart: 'timestamptz', periodEnd: 'timestamptz', coversFrom: 'timestamptz' },
  ...{ coversTo: 'timestamptz', state: 'text', voidReason: 'text', failedTries: 'int' },
  ...{ nextTryAt: 'timestamptz', closedAt: 'timestamptz' },
} as const;

const sumTypes = {
  ...{ lines: 'jsonb', planAmount: 'int8', discountAmount: 'int8', adjustmentAmount: 'int8' },
  ...{ total: 'int8', creditApplied: 'int8', amountDue: 'int8', discountId: 'uuid' },
} as const;

/** The columns of an invoice's lines and sums. The amounts of the lines are text. */
export function sumColumns({ lines, total, creditApplied, amountDue, discountId }: InvoiceSums) {
  const sumOf = (kind: Line['kind']) =>
    lines.reduce((sum, line) => (line.kind === kind ? sum + line.amount : sum), 0n);
  return {
    lines: lines.map(({ amount, ...line }) => ({ ...line, amount: amount.toString() })),
    ...{ planAmount: sumOf('plan'), discountAmount: sumOf('discount') },
    ...{ adjustmentAmount: sumOf('adjustment'), total, creditApplied, amountDue, discountId },
  };
}

/** Thrown when the changes of these subscriptions cannot be written. The caller must roll back. */
export class NotWritten extends Error {
  readonly subscriptionIds: ReadonlySet<string>;

  constructor(message: string, subscriptionIds: Iterable<string>) {
    super(message);
    this.subscriptionIds = new Set(subscriptionIds);
  }
}

/**
 * Thrown when the on-chain address of a subscription has another open attempt, or another invoice
 * for the same time.
 */
export class AddressTaken extends NotWritten {
  constructor(subscriptionIds: Iterable<string>) {
    super('the address has another open attempt or invoice', subscriptionIds);
  }
}

/** Thrown when an invoice to change is gone, because a failover of Postgres has lost it. */
class InvoiceLost extends NotWritten {
  constructor(subscriptionIds: Iterable<string>) {
    super('the invoice is no longer stored', subscriptionIds);
  }
}

/** An invoice that is drawn up for this subscription, or changed. */
export interface InvoiceChange {
  readonly subscriptionId: string;
  readonly invoice: Invoice;
}

/**
 * Writes the states of the stored invoices, then stores the others, and spends their credit, whose
 * balances the caller has locked. Returns the ids of all of them. Throws AddressTaken if an account
 * has another invoice for the same cover, InvoiceLost if a stored one is gone. The caller must then
 * roll back.
 */
export async function writeInvoices(
  sql: Queryable,
  changes: readonly InvoiceChange[],
): Promise<Map<Invoice, string>> {
  const ids = new Map<Invoice, string>();
  for (const { invoice } of changes) if (invoice.id !== null) ids.set(invoice, invoice.id);
  const rowOf = ({ subscriptionId, invoice }: InvoiceChange) => ({ ...invoice, subscriptionId });
  const known = changes.filter(({ invoice }) => invoice.id !== null);
  const kept = known.length === 0 ? new Set<string>() : await updateInvoices(sql, known.map(rowOf));
  const lost = known.filter(({ invoice: { id } }) => id !== null && !kept.has(id));
  if (lost.length > 0) throw new InvoiceLost(lost.map((one) => one.subscriptionId));
  const added = changes.filter(({ invoice }) => invoice.id === null);
  const stored =
    added.length === 0 ? new Map<number, string>() : await insertInvoices(sql, added.map(rowOf));
  const missing = added.filter((_, place) => !stored.has(place));
  if (missing.length > 0) throw new AddressTaken(missing.map((one) => one.subscriptionId));
  for (const [place, { invoice }] of added.entries()) ids.set(invoice, stored.get(place) ?? '');
  const spending = [...ids].flatMap(([invoice, id]) => (invoice.creditApplied > 0n ? [id] : []));
  if (spending.length > 0) await spendCredit(sql, spending);
  return ids;
}

/** SQL condition: the given state `g` has failed tries, or is closed without a payment. */
const isTroubled = (sql: Queryable) => sql`
  (g.failed_tries > 0 or g.state in ('void', 'uncollectible'))`;

/** Stores the invoices of subscriptions. Returns the ids of the stored ones, by place. */
async function insertInvoices(
  sql: Queryable,
  invoices: readonly (Invoice & { subscriptionId: string })[],
): Promise<Map<number, string>> {
  const rows = invoices.map((one, place) => ({ ...one, ...sumColumns(one), place }));
  const stored = await sql<{ place: number; id: string }[]>`
    with given as materialized (
      select uuid_v7() as id, g.* from (${recordset(sql, rows, {
        ...{ place: 'int', subscriptionId: 'uuid', reason: 'text', dueAt: 'timestamptz' },
        ...{ drawnUpAt: 'timestamptz', ...sumTypes, ...stateTypes },
      })}) as g
    ), stored as (
      insert into invoices (id, app_id, customer_id, subscription_id, subscription_pda, reason,
        period_start, period_end, covers_from, covers_to, lines, plan_amount, discount_amount,
        adjustment_amount, discount_id, total, credit_applied, amount_due, state, void_reason, due_at,
        failed_tries, next_try_at, drawn_up_at, closed_at, troubled_at, unpaid_at)
      select g.id, s.app_id, s.customer_id, s.id, s.subscription_pda, g.reason,
        g.period_start, g.period_end, g.covers_from, g.covers_to, g.lines, g.plan_amount,
        g.discount_amount, g.adjustment_amount, g.discount_id, g.total, g.credit_applied,
        g.amount_due, g.state,
        g.void_reason, g.due_at, g.failed_tries, g.next_try_at, g.drawn_up_at, g.closed_at,
        case when ${isTroubled(sql)} then now() end,
        case when g.state in ('void', 'uncollectible') then now() end
      from given g join subscriptions s on s.id = g.subscription_id
      on conflict (subscription_pda, period_start, covers_from) where reason = 'period'
        and ${isStanding(sql)} do nothing
      returning id
    )
    select given.place, stored.id from given join stored on stored.id = given.id`;
  return new Map(stored.map(({ place, id }) => [place, id]));
}

/**
 * Writes the states of stored invoices. The invoice of a sponsored sign-up, which has no
 * subscription yet, gets the given one. Returns the ids of those that exist.
 */
async function updateInvoices(
  sql: Queryable,
  invoices: readonly (Invoice & { subscriptionId: string })[],
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    update invoices i set subscription_id = coalesce(i.subscription_id, s.id),
      customer_id = coalesce(i.customer_id, s.customer_id),
      period_start = g.period_start, period_end = g.period_end,
      covers_from = g.covers_from, covers_to = g.covers_to, state = g.state,
      void_reason = g.void_reason, failed_tries = g.failed_tries, next_try_at = g.next_try_at,
      closed_at = g.closed_at,
      troubled_at = case when ${isTroubled(sql)} then coalesce(i.troubled_at, now())
        else i.troubled_at end,
      unpaid_at = case when g.state in ('void', 'uncollectible')
        then coalesce(i.unpaid_at, now()) else i.unpaid_at end
    from (${recordset(sql, invoices, { id: 'uuid', subscriptionId: 'uuid', ...stateTypes })}) as g
      join subscriptions s on s.id = g.subscription_id
    where i.id = g.id
    returning i.id`;
  return new Set(rows.map(({ id }) => id));
}

/** The offer of a sponsored sign-up. Its discount is that of the checkout session. */
interface SignUpOffer {
  offerId: string;
  planId: string;
  subscriptionPda: string;
  checkoutSessionId: string | null;
  /** The subscription that a change of plan replaces. Its customer's credit is spent. */
  replaces: string | null;
  /** The chain time for which the credit was computed. */
  creditAt: Date | null;
}

/**
 * Stores the open invoice of a sponsored sign-up and returns its id. It gets a subscription, a
 * period and a cover once the sign-up has landed.
 */
export async function insertOfferInvoice(
  sql: Transaction,
  offer: SignUpOffer,
  { periodStart, invoice }: { periodStart: Date; invoice: InvoiceSums },
): Promise<string> {
  const { offerId, planId, subscriptionPda, checkoutSessionId, replaces, creditAt } = offer;
  const isDiscounted = invoice.lines.some(({ kind }) => kind === 'discount');
  const discountId = isDiscounted ? checkoutSessionId : null;
  const whose = { offerId, planId, subscriptionPda, asOf: creditAt ?? periodStart };
  const row = { ...whose, ...sumColumns({ ...invoice, discountId }) };
  const [stored] = await sql<[{ id: string }]>`
    insert into invoices (app_id, offer_id, subscription_pda, lines, plan_amount, discount_amount,
      adjustment_amount, discount_id, total, credit_applied, amount_due, due_at, drawn_up_at)
    select p.app_id, g.offer_id, g.subscription_pda, g.lines, g.plan_amount, g.discount_amount,
      g.adjustment_amount, g.discount_id, g.total, g.credit_applied, g.amount_due, g.as_of, g.as_of
    from (${recordset(sql, [row], {
      ...{ offerId: 'uuid', planId: 'uuid', subscriptionPda: 'text', asOf: 'timestamptz' },
      ...sumTypes,
    })}) as g join plans p on p.id = g.plan_id
    returning id`;
  if (replaces !== null) await spendForOffer(sql, stored.id, replaces);
  return stored.id;
}

/** Closes the open invoice of a sponsored sign-up as void. */
export async function voidOfferInvoice(sql: Queryable, offerId: string): Promise<void> {
  await sql`
    update invoices set state = 'void', void_reason = 'offer', closed_at = now(),
      troubled_at = now(), unpaid_at = now()
    where offer_id = ${offerId} and state = 'open'`;
}

const invoiceColumns = (sql: Queryable) => sql`
  i.id, i.subscription_id, i.customer_id, i.reason, i.period_start, i.period_end, i.covers_from, i.covers_to, i.lines, i.total,
  i.credit_applied, i.credit_applied > 0 and i.state = 'uncollectible' and exists (
    select from credits c where c.invoice_id = i.id and c.reason = 'reversed') as is_released,
  i.amount_due, i.discount_id, i.state, i.void_reason, i.due_at, i.failed_tries, i.next_try_at,
  i.drawn_up_at, i.closed_at`;

type StoredInvoice = Omit<Invoice, 'lines'> & { id: string; lines: StoredLine[] };
type StoredLine = Omit<Line, 'amount'> & { amount: string };

const withLines = <Row extends StoredInvoice>({ lines, ...row }: Row) => ({
  ...row,
  lines: lines.map((line): Line => ({ ...line, amount: BigInt(line.amount) })),
});

/**
 * Reads the invoice of each subscription's newest period, by subscription id. Leaves out invoices
 * that are paid or that an open attempt may pay. If an earlier registration of the address has the
 * newest one, reads that one if it is closed: no other may have its cover.
 */
export async function readUnpaidInvoices(
  sql: Queryable,
  subscriptionIds: readonly string[],
): Promise<Map<string, Invoice>> {
  const rows = await sql<(StoredInvoice & { registration: string })[]>`
    select s.id as registration, newest.* from subscriptions s
      cross join lateral (${newestInvoice(sql, invoiceColumns(sql))}) as newest
    where s.id = any(${[...subscriptionIds]}::uuid[])
      and newest.state <> 'paid' and (newest.subscription_id = s.id or newest.state <> 'open')
      and not exists (select from payment_attempts a
        where a.subscription_pda = s.subscription_pda and a.state = 'open')`;
  return new Map(rows.map(({ registration, ...row }) => [registration, withLines(row)]));
}

/** Reads invoices. Returns a function that gives the one with an id. */
export async function readInvoices(
  sql: Queryable,
  ids: readonly string[],
): Promise<(id: string) => Invoice> {
  const rows = await sql<StoredInvoice[]>`
    select ${invoiceColumns(sql)} from invoices i where i.id = any(${[...ids]}::uuid[])`;
  const invoices = new Map(rows.map((row) => [row.id, withLines(row)]));
  return (id) => {
    const invoice = invoices.get(id);
    if (invoice === undefined) throw new Error(`there is no invoice ${id}`);
    return invoice;
  };
}

/** The invoices that concern pulls without a known attempt. */
export interface PulledInvoices {
  /**
   * The invoices of attempts with the pulls' signatures. Leaves out those that are replaced or
   * whose offer was given up.
   */
  readonly attempted: readonly { subscriptionPda: string; signature: string; invoice: Invoice }[];
  /**
   * The invoices of the pulls' periods, of any registration, in the order of their covers. Leaves
   * out those that an attempt may still pay.
   */
  readonly billed: readonly { subscriptionPda: string; invoice: Invoice }[];
}

export async function readInvoicesOfPulls(
  sql: Queryable,
  pulls: readonly {
    subscriptionPda: string;
    periodStart: Date;
    txSignature: string | null;
  }[],
): Promise<PulledInvoices> {
  const signed = pulls.flatMap(({ subscriptionPda, txSignature }) =>
    txSignature === null ? [] : [{ subscriptionPda, signature: bytesOf(txSignature) }],
  );
  const attempts = await sql<{ subscriptionPda: string; signature: Buffer; invoiceId: string }[]>`
    select a.subscription_pda, t.signature, a.invoice_id
    from (${recordset(sql, signed, { subscriptionPda: 'text', signature: 'bytea' })}) as g
      join transactions t on t.signature = g.signature
      join payment_attempts a on a.transaction_id = t.id
        and a.subscription_pda = g.subscription_pda
      join invoices i on i.id = a.invoice_id and ${isStanding(sql)}`;
  const periods = await sql<{ subscriptionPda: string; invoiceId: string }[]>`
    select i.subscription_pda, i.id as invoice_id
    from (${recordset(sql, pulls, { subscriptionPda: 'text', periodStart: 'timestamptz' })}) as g
      join invoices i on i.subscription_pda = g.subscription_pda and i.reason = 'period'
        and ${isStanding(sql)} and i.period_start = g.period_start
    where not exists (select from payment_attempts a
      where a.subscription_pda = i.subscription_pda and a.state = 'open' and a.invoice_id = i.id)
    order by i.covers_from`;
  const ids = [...attempts, ...periods].map(({ invoiceId }) => invoiceId);
  const invoiceOf = await readInvoices(sql, ids);
  return {
    attempted: attempts.map(({ signature, invoiceId, ...one }) => ({
      ...{ ...one, signature: bs58.encode(signature), invoice: invoiceOf(invoiceId) },
    })),
    billed: periods.map(({ invoiceId, ...one }) => ({ ...one, invoice: invoiceOf(invoiceId) })),
  };
}

/**
 * Closes the open invoice of a subscription as void. The transaction holds the lock on the
 * subscription's row, so that no keeper commits an attempt meanwhile. An invoice that an attempt
 * may still pay stays open: a keeper closes it once the attempt has ended.
 */
export async function voidOpenInvoice(
  sql: Transaction,
  subscriptionId: string,
  reason: 'ended' | 'replaced',
): Promise<void> {
  await sql`
    update invoices i set state = 'void', void_reason = ${reason}, closed_at = now(),
      troubled_at = coalesce(i.troubled_at, now()), unpaid_at = now()
    from subscriptions s
    where s.id = ${subscriptionId} and i.subscription_pda = s.subscription_pda
      and i.subscription_id = s.id and i.reason = 'period' and i.void_reason is null
      and i.state = 'open' and not exists (select from payment_attempts a
        where a.subscription_pda = s.subscription_pda and a.state = 'open')`;
}
