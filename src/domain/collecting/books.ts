// The books are the recorded pulls and paid periods. They are read in the database transaction that
// writes new payments.
import { type PaymentRow, readPulled, readRecorded } from '../../db/payments.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { Pull } from './chain-view.ts';
import type { KnownPull } from './pulls.ts';
import type { SubscriptionUpdate } from './transitions.ts';

/**
 * Recorded pulls and paid periods by the address of the on-chain subscription. All registrations of
 * an address count together.
 */
export class Books {
  readonly #pulls = new Set<string>();
  readonly #periods = new Set<string>();

  add({ subscriptionPda, txSignature, periodStart }: Recorded): void {
    this.#pulls.add(`${subscriptionPda} ${txSignature}`);
    if (periodStart !== undefined)
      this.#periods.add(`${subscriptionPda} ${periodStart.getTime() / 1000}`);
  }

  include(other: Books): void {
    for (const pull of other.#pulls) this.#pulls.add(pull);
    for (const period of other.#periods) this.#periods.add(period);
  }

  /** Marks whether a pull is recorded, and whether its period is paid. */
  mark(subscriptionPda: string, pull: Pull): KnownPull {
    return {
      ...pull,
      recorded: this.#pulls.has(`${subscriptionPda} ${pull.signature}`),
      isPeriodPaid: this.#periods.has(`${subscriptionPda} ${pull.periodStart}`),
    };
  }

  /**
   * Whether this payment must not be inserted: its pull is recorded, or another pull paid its
   * period.
   */
  refuses({ subscriptionPda, status, txSignature, further, periodStart }: PaymentRow): boolean {
    if (status === 'failed' || txSignature === null) return false;
    if (this.#pulls.has(`${subscriptionPda} ${txSignature}`)) return true;
    return !further && this.#periods.has(`${subscriptionPda} ${periodStart.getTime() / 1000}`);
  }
}

interface Recorded {
  subscriptionPda: string;
  txSignature: string;
  periodStart?: Date;
}

/**
 * Reads which pulls of these updates are recorded, and which of their periods are paid. Only
 * periods before paidThrough are queried. A payment and paidThrough are written together, so a
 * later period is unpaid.
 */
export async function readBooks(
  sql: Queryable,
  updates: readonly Pick<SubscriptionUpdate, 'row' | 'payments'>[],
): Promise<Books> {
  const books = new Books();
  const succeeded = updates.flatMap(({ row, payments }) =>
    payments
      .filter(({ status }) => status === 'succeeded')
      .map((payment) => ({ ...payment, paidThrough: row.paidThrough })),
  );
  const signatures = succeeded.flatMap(({ txSignature }) => txSignature ?? []);
  if (signatures.length === 0) return books;
  const covered = succeeded.filter(
    ({ further, periodStart, paidThrough }) =>
      !further && paidThrough !== null && paidThrough > periodStart,
  );
  for (const one of await readRecorded(sql, [...new Set(signatures)])) books.add(one);
  if (covered.length > 0) for (const one of await readPulled(sql, covered)) books.add(one);
  return books;
}
