// Compares statements with the chain for `billing reconcile`. The sums of a day in an app's
// statement must equal the sums of the app's payments and refunds with a block time on that day. A
// day is skipped if one of its payments or refunds already has a reported difference.
import type { FoundTransaction } from '../../../chain/rpc/responses.ts';
import { paysRefund } from '../../../chain/transactions/refund.ts';
import { readStatementDays, type StatementDay } from '../../../db/money/statements.ts';
import { readAppSponsoring } from '../../../db/offers/sponsor-budgets.ts';
import {
  listRecordedRefunds,
  listRefundFaults,
  type RecordedRefundRow,
} from '../../../db/operating/reconciliation.ts';
import type { Sql } from '../../../db/postgres/connect.ts';
import { monthRange } from '../../../domain/accounts/statement.ts';
import { type Difference, unreadableRecord } from '../../../domain/collecting/differences.ts';
import { each } from '../../../each.ts';
import type { PaidRefund } from './journal.ts';

const PAGE = 500;
const AT_ONCE = 16;
const DAY_MS = 86_400_000;
const FIELDS = ['gross', 'fees', 'net', 'refunded'] as const;

type Sums = Record<(typeof FIELDS)[number], bigint>;
interface Range {
  since: Date;
  until: Date;
}

const dayOf = (at: Date) => at.toISOString().slice(0, 10);

/** The sums of payments and refunds on chain, for each app and UTC day. */
export class ShownDays {
  readonly #apps = new Map<string, Map<string, Sums>>();
  readonly #left = new Set<string>();

  /**
   * Adds a payment or a refund to the sums of the day of `at`, its time on chain. The statement
   * counts the payment or refund on the day of `recordedAt`. If the two days differ, both days are
   * compared with the statement, so that the wrong day is found.
   */
  add(appId: string, at: Date, recordedAt: Date, sums: Partial<Sums>): void {
    const day = this.#day(appId, dayOf(at));
    for (const field of FIELDS) day[field] += sums[field] ?? 0n;
    this.#day(appId, dayOf(recordedAt));
  }

  /**
   * Excludes a day from the comparison, because one of the day's payments or refunds already has a
   * reported difference.
   */
  leave(appId: string, at: Date): void {
    this.#left.add(`${appId} ${dayOf(at)}`);
  }

  /** Returns for each app the months with a day to compare, such as `2026-01`. */
  months(): Map<string, Set<string>> {
    return new Map(
      [...this.#apps].map(([appId, days]) => [
        appId,
        new Set([...days.keys()].map((day) => day.slice(0, 7))),
      ]),
    );
  }

  /** Returns the sums of a day. Returns undefined if the day is excluded. */
  sumsOf(appId: string, day: string): Sums | undefined {
    if (this.#left.has(`${appId} ${day}`)) return undefined;
    return this.#apps.get(appId)?.get(day) ?? nothing();
  }

  #day(appId: string, day: string): Sums {
    const days = this.#apps.get(appId) ?? new Map<string, Sums>();
    this.#apps.set(appId, days);
    const sums = days.get(day) ?? nothing();
    days.set(day, sums);
    return sums;
  }
}

const nothing = (): Sums => ({ gross: 0n, fees: 0n, net: 0n, refunded: 0n });

/**
 * Compares the recorded refunds with the chain. Adds each refund without a difference to `shown`
 * and to `paid`.
 */
export async function compareRefunds(
  sql: Sql,
  { since, until }: Range,
  { shown, paid }: { shown: ShownDays; paid: PaidRefund[] },
  read: (signature: string) => Promise<FoundTransaction | null>,
): Promise<Difference[]> {
  const differences: Difference[] = [];
  const compare = async (refund: RecordedRefundRow) => {
    const { id, appId, amount, excess, occurredAt, subscriptionPda } = refund;
    const { txSignature: signature } = refund;
    const found = await read(signature);
    const difference = refundDifference(refund, found);
    if (difference !== undefined) {
      shown.leave(appId, occurredAt);
      differences.push({ ...difference, signature, subscriptionPda, repaired: false });
      return;
    }
    const seconds = found !== null && 'blockTime' in found ? found.blockTime : null;
    const landedAt = seconds === null ? occurredAt : new Date(Number(seconds) * 1000);
    shown.add(appId, landedAt, occurredAt, { refunded: amount });
    paid.push({ signature, subscriptionPda, amount });
    if (excess > 0n) {
      const kind = 'refund_excess';
      const detail = `refund ${id} returned ${amount}, ${excess} more than was left of its payment`;
      differences.push({ kind, signature, subscriptionPda, detail, repaired: false });
    }
  };
  let after: string | null = null;
  for (;;) {
    const page: RecordedRefundRow[] = await listRecordedRefunds(sql, {
      since,
      until,
      after,
      limit: PAGE,
    });
    await each(page, AT_ONCE, compare);
    after = page.at(-1)?.id ?? null;
    if (page.length < PAGE) break;
  }
  const faults = await listRefundFaults(sql, { since, until });
  const sums = faults.map(({ id, subscriptionPda, txSignature, amountRefunded, refunded }) => ({
    kind: 'refunds_differ' as const,
    signature: txSignature ?? '',
    subscriptionPda,
    detail: `payment ${id}: ${amountRefunded} recorded as refunded, its refunds are ${refunded}`,
    repaired: false,
  }));
  return [...differences, ...sums];
}

function refundDifference(
  refund: RecordedRefundRow,
  found: FoundTransaction | null,
): Pick<Difference, 'kind' | 'detail'> | undefined {
  const { id, merchantWallet: merchant, subscriberWallet: subscriber } = refund;
  if (found !== null && 'unreadable' in found) return unreadableRecord(found);
  if (found !== null && paysRefund(found, { ...refund, merchant, subscriber })) return undefined;
  const why =
    found === null ? 'no RPC endpoint has the transaction' : 'the transaction does not pay it';
  return { kind: 'refund_not_on_chain', detail: `refund ${id} is recorded, but ${why}` };
}

/** Reports each whole day of the range on which a statement and the chain have different sums. */
export async function compareStatements(
  sql: Sql,
  { since, until }: Range,
  shown: ShownDays,
): Promise<Difference[]> {
  const first = Math.ceil(since.getTime() / DAY_MS) * DAY_MS;
  const end = Math.floor(until.getTime() / DAY_MS) * DAY_MS;
  const differences: Difference[] = [];
  for (const [appId, months] of shown.months())
    for (const month of [...months].sort()) {
      const days = await readStatementDays(sql, appId, monthRange(month));
      differences.push(...(await compareSponsored(sql, appId, days, { first, end })));
      for (const stated of days) {
        const { day } = stated;
        const sums = shown.sumsOf(appId, dayOf(day));
        if (sums === undefined || day.getTime() < first || day.getTime() >= end) continue;
        const others = FIELDS.filter((field) => BigInt(stated[field]) !== sums[field]);
        if (others.length === 0) continue;
        const texts = others.map(
          (field) => `${field} ${stated[field]}, the chain shows ${sums[field]}`,
        );
        differences.push({
          kind: 'statement_differs',
          signature: '',
          subscriptionPda: '',
          detail: `app ${appId} on ${dayOf(day)}: ${texts.join('; ')}`,
          repaired: false,
        });
      }
    }
  return differences;
}

/**
 * Compares the sponsored SOL of a statement with the sponsored SOL of analytics, over the whole
 * days of the range. Both amounts are computed from the recorded sponsorships, so the chain is not
 * read.
 */
async function compareSponsored(
  sql: Sql,
  appId: string,
  days: readonly StatementDay[],
  { first, end }: { first: number; end: number },
): Promise<Difference[]> {
  const wholeDays = days.filter(({ day }) => day.getTime() >= first && day.getTime() < end);
  const [from, last] = [wholeDays[0]?.day, wholeDays.at(-1)?.day];
  if (from === undefined || last === undefined) return [];
  const to = new Date(last.getTime() + DAY_MS);
  const { lamportsFees, lamportsRent } = await readAppSponsoring(sql, appId, { from, to });
  const stated = wholeDays.reduce((sum, day) => sum + BigInt(day.sponsoredLamports), 0n);
  const analyticsSum = lamportsFees + lamportsRent;
  if (stated === analyticsSum) return [];
  const detail = `app ${appId} from ${dayOf(from)} to ${dayOf(last)}: sponsored ${stated} lamports, analytics ${analyticsSum}`;
  return [
    { kind: 'statement_differs', signature: '', subscriptionPda: '', detail, repaired: false },
  ];
}
