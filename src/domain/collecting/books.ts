// The books: which on-chain payments are recorded in the database, and which periods they paid. The
// books are read in the database transaction that writes new payments.
import {
  type Invoice,
  type PulledInvoices,
  readInvoicesOfPulls,
} from '../../db/invoices/invoices.ts';
import {
  type PaymentRow,
  readPaidByCredit,
  readPulled,
  readRecorded,
} from '../../db/money/payments.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { Pull } from './chain-view.ts';
import { bookedThrough, type KnownPull } from './pulls.ts';
import type { SubscriptionUpdate } from './transitions.ts';

/**
 * Recorded payments and paid periods, by the address of the on-chain subscription. A subscription
 * that was registered several times has one address, so all its registrations count together.
 */
export class Books {
  readonly #pulls = new Set<string>();
  readonly #periods = new Set<string>();
  readonly #credited = new Set<string>();
  readonly #attempted = new Map<string, Invoice>();
  readonly #billed = new Map<string, Invoice>();

  add({ subscriptionPda, txSignature, periodStart, isCredited = false }: Recorded): void {
    this.#pulls.add(`${subscriptionPda} ${txSignature}`);
    if (periodStart === undefined) return;
    const period = `${subscriptionPda} ${periodStart.getTime() / 1000}`;
    this.#periods.add(period);
    if (isCredited) this.#credited.add(period);
  }

  /** Adds a period that a credit has paid. A pull in the period is a further payment. */
  addPeriod({ subscriptionPda, periodStart }: Pick<PaymentRow, 'subscriptionPda' | 'periodStart'>) {
    this.#periods.add(`${subscriptionPda} ${periodStart.getTime() / 1000}`);
  }

  /** Adds the invoices of pulls: those of their attempts, and those of their periods. */
  addInvoices({ attempted, billed }: PulledInvoices): void {
    for (const { subscriptionPda, signature, invoice } of attempted)
      this.#attempted.set(`${subscriptionPda} ${signature}`, invoice);
    for (const { subscriptionPda, invoice } of billed)
      this.#billed.set(
        `${subscriptionPda} ${(invoice.periodStart?.getTime() ?? 0) / 1000}`,
        invoice,
      );
  }

  include(other: Books): void {
    for (const [pull, invoice] of other.#attempted) this.#attempted.set(pull, invoice);
    for (const [period, invoice] of other.#billed) this.#billed.set(period, invoice);
    for (const pull of other.#pulls) this.#pulls.add(pull);
    for (const period of other.#periods) this.#periods.add(period);
    for (const period of other.#credited) this.#credited.add(period);
  }

  /**
   * Adds to an on-chain payment what the database has recorded: whether the payment is recorded,
   * whether its period is paid, and whether a change of plan took a credit from the period.
   */
  mark(subscriptionPda: string, pull: Pull): KnownPull {
    const period = `${subscriptionPda} ${pull.periodStart}`;
    const invoice = pull.invoice ?? this.#attempted.get(`${subscriptionPda} ${pull.signature}`);
    const billed = this.#billed.get(period);
    return {
      ...pull,
      ...(invoice !== undefined && { invoice }),
      ...(billed !== undefined && { billed }),
      recorded: this.#pulls.has(`${subscriptionPda} ${pull.signature}`),
      isPeriodPaid: this.#periods.has(period),
      isCredited: this.#credited.has(period),
    };
  }

  /**
   * Returns whether a payment must not be inserted: (1) its transaction is already recorded for
   * this subscription, (2) another payment has paid its period, or (3) its pull was assessed with
   * the books `known`, which lack the invoice of its attempt or of its period. Reason 2 does not
   * apply to a `further` payment, which is an additional payment in a paid period.
   */
  refuses(payment: PaymentRow, known: Books): boolean {
    const { subscriptionPda, status, txSignature, further, periodStart, invoice } = payment;
    if (status === 'failed' || txSignature === null) return false;
    const pull = `${subscriptionPda} ${txSignature}`;
    const period = `${subscriptionPda} ${periodStart.getTime() / 1000}`;
    if (this.#pulls.has(pull)) return true;
    if (!further && this.#periods.has(period)) return true;
    if (invoice !== null && invoice.id !== null) return false;
    return (
      this.#attempted.get(pull)?.id !== known.#attempted.get(pull)?.id ||
      this.#billed.get(period)?.id !== known.#billed.get(period)?.id
    );
  }
}

interface Recorded {
  subscriptionPda: string;
  txSignature: string;
  periodStart?: Date;
  isCredited?: boolean;
}

/**
 * Reads the recorded payments and paid periods that concern `updates`. Periods after the last
 * recorded period are not queried, because a payment and the end of its period are written
 * together. For a registration without a payment every period is queried, because an earlier
 * registration of the account may have recorded its payments.
 */
export async function readBooks(
  sql: Queryable,
  updates: readonly Pick<SubscriptionUpdate, 'row' | 'payments'>[],
): Promise<Books> {
  const books = new Books();
  const succeeded = updates.flatMap(({ row, payments }) =>
    payments
      .filter(({ status }) => status === 'succeeded')
      .map((payment) => ({ ...payment, booked: bookedThrough(row) })),
  );
  const signatures = succeeded.flatMap(({ txSignature }) => txSignature ?? []);
  if (signatures.length === 0) return books;
  const found = succeeded.filter(({ invoice }) => (invoice?.id ?? null) === null);
  if (found.length > 0) books.addInvoices(await readInvoicesOfPulls(sql, found));
  const covered = succeeded.filter(
    ({ further, periodStart, booked }) => !further && (booked === null || booked > periodStart),
  );
  for (const one of await readRecorded(sql, [...new Set(signatures)])) books.add(one);
  if (covered.length === 0) return books;
  for (const one of await readPulled(sql, covered)) books.add(one);
  for (const one of await readPaidByCredit(sql, covered)) books.addPeriod(one);
  return books;
}
