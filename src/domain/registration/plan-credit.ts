// Computes and stores what a new subscription takes over from earlier ones.
//
// From the subscription that a change of plan replaces. The two cases are the values of ChangeWhen:
//   `now`: the unused part of the paid period becomes credit, and the replaced subscription ends
//   `period_end`: the first payment is deferred to the end of the paid time
//
// From the ended registration of the same on-chain account: the running period, if a credit has
// paid for it, and the time to which a change of plan has deferred the first payment.
//
// Credit belongs to the customer, so it is there for the new subscription in any case.
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { makeCredit, moveCredit } from '../../db/invoices/credits.ts';
import { noteUnused } from '../../db/invoices/notes.ts';
import type { ChangeWhen } from '../../db/offers/offers.ts';
import type { Queryable, Transaction } from '../../db/postgres/connect.ts';
import { readRemainder } from '../../db/subscriptions/account-registrations.ts';
import {
  endReplacedAt,
  hasOpenAttempt,
  hasOpenChange,
  lockPaidParts,
  markReplaced,
  markReplacedAfterEnd,
  type PaidOf,
  type PaidRow,
  readPaidParts,
  readNewestReplaced,
  readReplaced,
  type ReplacedRow,
} from '../../db/subscriptions/plan-changes.ts';
import { writePaid } from '../../db/subscriptions/refunded.ts';
import type { NewRegistration, TakenTerms } from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import { latest, type Taken, takenFrom } from '../invoices/credits.ts';
import { appendEvents, storeCreditEvents } from '../outbox/events.ts';

/** A change of plan that landed, or would land, at the chain time `at` (Unix seconds). */
export interface PlanChange {
  /** The replaced subscription. */
  readonly id: string;
  readonly when: ChangeWhen;
  readonly at: bigint;
  /** The database's time at which the landed transaction was offered. */
  readonly offeredAt?: Date | null;
  /** The offer of the sponsored transaction that makes the change. */
  readonly offerId?: string | null;
}

/** What the new subscription takes over, and the rows of the replaced subscriptions. */
export interface TakenOver extends Taken {
  readonly rows: readonly ReplacedRow[];
}

/**
 * Thrown while a payment, a refund or a change of plan of the earlier subscription may still land,
 * because the credit is not known yet.
 */
export class PaymentUnderWay extends ServiceError {
  constructor() {
    super(
      'CONFLICT',
      'A payment, a refund or a change of plan of the earlier subscription is under way. Try again in a minute.',
    );
  }
}

type PaidReader<Db> = (sql: Db, of: PaidOf) => Promise<PaidRow[]>;

/**
 * Computes what the new subscription takes over from the replaced one. If the replaced subscription
 * has ended and its account was registered again, the newer registration is used instead. Undefined
 * when the replaced subscription had ended before the change (wasLive) or was already replaced.
 * Throws PaymentUnderWay.
 */
export function readTakenOver(sql: Queryable, change: PlanChange): Promise<TakenOver | undefined> {
  return takenOver(sql, change, { forUpdate: false, read: readPaidParts });
}

async function takenOver<Db extends Queryable>(
  sql: Db,
  { id, when, at, offeredAt = null, offerId = null }: PlanChange,
  { forUpdate, read }: { forUpdate: boolean; read: PaidReader<Db> },
): Promise<TakenOver | undefined> {
  const rows = await replacedRows(sql, id, at, { forUpdate });
  const [first, ...earlier] = rows;
  if (first === undefined || first.replacedBy !== null) return undefined;
  if (!wasLive(first, { at, offeredAt })) return undefined;
  const pdas = rows.map(({ subscriptionPda }) => subscriptionPda);
  if ((await hasOpenAttempt(sql, pdas)) || (await hasOpenChange(sql, id, offerId)))
    throw new PaymentUnderWay();
  const paid = new Map<string, PaidRow[]>();
  for (const row of when === 'now' ? rows : [first])
    paid.set(row.id, await read(sql, { id: row.id, at: timeOf(at) }));
  const taken = takenFrom([{ ...first, status: 'active' }, ...earlier], paid, { when, at });
  if (taken === undefined) throw new PaymentUnderWay();
  return { rows, ...taken };
}

/**
 * Returns the row of the newest registration of the account of the subscription `id`. While the
 * first payment of this registration is deferred, the paid time of the subscription that it
 * replaced still runs, so that subscription's row follows. The same rule applies to each further
 * row.
 */
async function replacedRows(
  sql: Queryable,
  id: string,
  at: bigint,
  options: { forUpdate: boolean },
): Promise<ReplacedRow[]> {
  const rows: ReplacedRow[] = [];
  let row = await readNewestReplaced(sql, id, options);
  while (row !== undefined) {
    rows.push(row);
    const isDeferred: boolean = row.startsAt !== null && unixSeconds(row.startsAt) > at;
    row =
      isDeferred && row.replaces !== null
        ? await readReplaced(sql, row.replaces, options)
        : undefined;
  }
  return rows;
}

/** Like readTakenOver(), but also locks the rows. Call it in the registration's transaction. */
export function takeOver(sql: Transaction, change: PlanChange): Promise<TakenOver | undefined> {
  return takenOver(sql, change, { forUpdate: true, read: lockPaidParts });
}

/**
 * Stores (1) what the new subscription `by` has taken over, (2) the end of the paid time that
 * became credit, and (3) the events of the credit and of the replaced subscription.
 */
export async function storeTakenOver(
  sql: Transaction,
  { at }: PlanChange,
  { rows, parts, endsAt: replacedAt }: TakenOver,
  by: string,
): Promise<void> {
  const [first, ...earlier] = rows;
  if (first === undefined) return;
  const made = parts.map(({ id: paymentId, amount }) => ({ paymentId, amount }));
  await noteUnused(sql, made, timeOf(at));
  for (const { id } of earlier) await endReplacedAt(sql, id, replacedAt);
  if (isLive(first)) await storeReplaced(sql, first.id, { by, at: timeOf(at), replacedAt });
  else await markReplacedAfterEnd(sql, first.id, { by, replacedAt });
  // The open invoice of the replaced subscription has given back its credit by now.
  const moved = await moveCredit(sql, { from: first.id, to: by });
  await storeCreditEvents(sql, [...moved, ...(await makeCredit(sql, by, made))]);
  if (parts.length > 0)
    await writePaid(
      sql,
      parts.map(({ id }) => id),
      timeOf(at),
    );
}

/** Marks a live subscription as replaced, with its event. */
async function storeReplaced(
  sql: Transaction,
  subscriptionId: string,
  replacement: { by: string; at: Date; replacedAt: Date },
): Promise<void> {
  const replaced = await markReplaced(sql, subscriptionId, replacement);
  if (replaced?.isFirst !== true) return;
  const { cancelRequestedAt } = replaced;
  const { by: replacedBy } = replacement;
  const extra = { cancelRequestedAt, cancelRequestedBy: 'subscriber', replacedBy };
  await appendEvents(sql, [{ subscriptionId, type: 'cancel_requested', extra }]);
}

/**
 * Computes what a registration takes over from the ended registration of its account, in addition
 * to `taken`, what it takes over in a change of plan. Undefined when it takes over nothing.
 */
export async function readTaken(
  sql: Queryable,
  account: Pick<NewRegistration, 'subscriptionPda' | 'initId' | 'periodStart'>,
  { now, taken }: { now: Date; taken: TakenOver | undefined },
): Promise<TakenTerms | undefined> {
  const except = taken?.parts.map(({ id }) => id);
  const left = await readRemainder(sql, account, { now, except });
  if (left === undefined && taken === undefined) return undefined;
  return {
    replaces: taken?.rows[0]?.id ?? left?.replaces ?? null,
    credit: taken?.credit ?? 0n,
    startsAt: latest(taken?.startsAt ?? null, left?.startsAt ?? null),
    paidThrough: left?.paidThrough ?? null,
    periodPulled: left?.periodPulled ?? 0n,
  };
}

/** The fields of subscription_created that state what the subscription has taken over. */
export function takenFields(
  { replaces, startsAt }: Pick<TakenTerms, 'replaces' | 'startsAt'>,
  credit: bigint,
) {
  if (replaces !== null) return { replaces, credit, startsAt };
  return credit > 0n ? { credit } : {};
}

const isLive = ({ status }: ReplacedRow) => status === 'active' || status === 'past_due';

/**
 * Whether a change of plan can take over from the subscription: it is live, or it ended after the
 * change landed (chain time `at`) or was offered (the database's time). In the second case the
 * wallet pays the amount that it was shown, which already includes the credit.
 */
function wasLive(
  row: ReplacedRow,
  { at, offeredAt }: { at: bigint; offeredAt: Date | null },
): boolean {
  if (isLive(row)) return true;
  const { endedAt, stoppedAt } = row;
  const endedLater = endedAt !== null && endedAt >= timeOf(at);
  const stoppedLater = offeredAt !== null && stoppedAt !== null && stoppedAt > offeredAt;
  return endedLater || stoppedLater;
}
