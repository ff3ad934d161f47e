// Change of plan: its rules, its cost and its transaction. plan-credit.ts stores what the new
// subscription takes over.
import { periodSeconds, pullPeriod } from '../../chain/program/period.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { type AppRow, findApp } from '../../db/accounts/apps.ts';
import type { ChangeWhen } from '../../db/offers/offers.ts';
import type { DiscountTerms } from '../../db/offers/terms.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import type { CheckoutSessionRow } from '../../db/subscriptions/checkout-sessions.ts';
import { readRunning } from '../../db/subscriptions/plan-changes.ts';
import { findPlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import {
  findSubscription,
  type SubscriptionRow,
  type TakenTerms,
} from '../../db/subscriptions/subscriptions.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import type { PlanView, Replaced } from '../actions/wallet-view.ts';
import type { ChainReader, BillingAddresses } from '../chain-reads.ts';
import { type Beginning, type PaymentRun, scheduleOf } from '../invoices/schedule.ts';
import { NO_DISCOUNT } from '../invoices/terms.ts';
import { type Opening, readOpening } from '../registration/opening.ts';
import { readTaken, readTakenOver, type TakenOver } from '../registration/plan-credit.ts';

interface Parts {
  readonly sql: Queryable;
  readonly chain: ChainReader;
  readonly network: BillingAddresses;
}

/** A change of plan that a wallet asks for. */
export interface ChangeRequest {
  /** The replaced subscription and its plan. */
  readonly old: SubscriptionRow;
  readonly oldPlan: PlanRow;
  readonly plan: PlanRow;
  readonly when: ChangeWhen;
  /** The checkout session in which the merchant offers the change. */
  readonly session?: CheckoutSessionRow | undefined;
  /** The discount that the merchant wants to offer, if no checkout session exists yet. */
  readonly discount?: DiscountTerms | undefined;
  /**
   * Whether the merchant offers the change. Such a change is allowed even if the merchant has
   * cancelled the replaced subscription.
   */
  readonly isOfMerchant?: boolean;
}

/** One payment, in base units. */
interface OnePayment {
  readonly amount: bigint;
  readonly dueAt: Date;
}

/** What the change costs if its transaction lands at `asOf`. Amounts are base units. */
export interface ChangeAmounts {
  readonly asOf: Date;
  /** Time at which the replaced subscription ends. */
  readonly endsAt: Date;
  readonly startsAt: Date | null;
  readonly credit: bigint;
  readonly today: bigint;
  readonly next: OnePayment | null;
  readonly after: OnePayment | null;
  readonly schedule: readonly PaymentRun[];
}

/**
 * Throws CONFLICT when `old` has ended, was replaced, or was cancelled by a merchant who does not
 * offer the change. Throws VALIDATION_ERROR when `plan` is the plan of `old` or a plan of another
 * app.
 */
export function checkChange({ old, plan, session, isOfMerchant = false }: ChangeRequest): void {
  if (old.status === 'cancelled' || old.status === 'expired')
    throw new ServiceError(
      'CONFLICT',
      `The subscription has ended (${old.status}): subscribe again.`,
    );
  if (old.replacedBy !== null)
    throw new ServiceError(
      'CONFLICT',
      `The subscription was replaced by ${old.replacedBy}: change that one.`,
    );
  if (old.cancelRequestedBy === 'merchant' && session === undefined && !isOfMerchant)
    throw new ServiceError('CONFLICT', 'The merchant has cancelled this subscription.');
  if (plan.appId !== old.appId) throw invalidField('planId', 'is a plan of another app');
  if (plan.id === old.planId) throw invalidField('planId', 'is the plan of this subscription');
}

/** Throws CONFLICT if subscribers of the app cannot change the plan themselves. */
export function refuseOwnChange(app: Pick<AppRow, 'planChanges'> | undefined): void {
  if (app?.planChanges !== true)
    throw new ServiceError('CONFLICT', 'The merchant of this app changes plans by a link only.');
}

/**
 * Reads the change of plan of an offer again. Throws as checkChange() and refuseOwnChange() do.
 * Throws CONFLICT when the checkout session makes another change.
 */
export async function readOfferedChange(
  sql: Queryable,
  { replaces, when, wallet }: { replaces: string; when: ChangeWhen; wallet: string },
  plan: PlanRow,
  session: CheckoutSessionRow | null,
): Promise<ChangeRequest> {
  const old = await findSubscription(sql, replaces);
  const oldPlan = old && (await findPlan(sql, old.planId));
  const isOther =
    session !== null && (session.replaces !== replaces || session.changeWhen !== when);
  if (oldPlan === undefined || old?.subscriberWallet !== wallet || isOther)
    throw new ServiceError('CONFLICT', 'The offer makes no change of plan of this wallet.');
  if (session === null) refuseOwnChange(await findApp(sql, old.appId));
  const request = { old, oldPlan, plan, when, ...(session !== null && { session }) };
  checkChange(request);
  return request;
}

/**
 * Returns the change of plan that a checkout session makes. `plan` is the new plan. Returns
 * undefined if the session makes no change.
 */
export async function sessionChange(
  sql: Queryable,
  plan: PlanRow,
  session: CheckoutSessionRow,
): Promise<ChangeRequest | undefined> {
  const { replaces, changeWhen: when } = session;
  if (replaces === null || when === null) return undefined;
  const old = await findSubscription(sql, replaces);
  const oldPlan = old === undefined ? undefined : await findPlan(sql, old.planId);
  if (old === undefined || oldPlan === undefined) return undefined;
  return { old, oldPlan, plan, when, session };
}

/** Reads how the wallet makes the change. Throws as checkChange() and readOpening() do. */
export async function readChangeOpening(parts: Parts, request: ChangeRequest): Promise<Opening> {
  checkChange(request);
  return readOpening(parts, request.plan, request.old.subscriberWallet, replacedOf(request));
}

/**
 * Computes the costs of a change that lands at the chain time `timeFrom(now)`. Without `timeFrom`,
 * the change lands now. Throws PaymentUnderWay, and as readChangeOpening() does.
 */
export async function readChange(
  parts: Parts,
  request: ChangeRequest,
  minimum: bigint,
  timeFrom: (now: bigint) => Date = timeOf,
): Promise<ChangeAmounts> {
  const opening = await readChangeOpening(parts, request);
  return amountsAt(parts.sql, request, opening, { minimum, at: timeFrom(opening.view.now) });
}

/** Addresses of the subscription that the change cancels and of its plan. */
export const replacedOf = ({ old, oldPlan }: Pick<ChangeRequest, 'old' | 'oldPlan'>): Replaced => ({
  planPda: oldPlan.planPda,
  subscriptionPda: old.subscriptionPda,
});

/**
 * Computes what the change costs if its transaction lands at `at`. Throws PaymentUnderWay. Throws
 * CONFLICT if the replaced subscription has ended by then.
 */
export async function amountsAt(
  sql: Queryable,
  request: ChangeRequest,
  { subscriptionPda, ...opening }: Pick<Opening, 'view' | 'subscriptionPda'>,
  { minimum, at: landsAt }: { minimum: bigint; at: Date },
): Promise<ChangeAmounts> {
  const { old, plan, when, session, discount: planned } = request;
  const at = unixSeconds(landsAt);
  const view = { ...opening.view, now: at };
  const taken = await readTakenOver(sql, { id: old.id, when, at });
  if (taken === undefined) throw new ServiceError('CONFLICT', 'The subscription has ended.');
  const { credit, startsAt, paidThrough } = await resumedTerms(sql, subscriptionPda, view, taken);
  const { discountPercent, discountAmount, discountPeriods }: DiscountTerms =
    session ?? planned ?? NO_DISCOUNT;
  const { amount, periodHours, endsAt: planEndsAt } = plan;
  const discount = { discountPercent, discountAmount, discountPeriods };
  const terms = { amount, periodHours, trialHours: null, planEndsAt, ...discount };
  const found = await runningOf(sql, subscriptionPda, view, taken);
  const running = found && paidThrough !== null ? { ...found, state: 'paid' as const } : found;
  const beginning = { startsAt, credit, ...(running !== undefined && { running }) };
  const asOf = timeOf(at);
  const schedule = scheduleOf(terms, asOf, minimum, beginning);
  const { today, next, after } = firstOf(schedule, asOf, periodHours);
  return { asOf, endsAt: taken.endsAt, startsAt, credit, today, next, after, schedule };
}

/**
 * The terms that the new subscription takes over, including those of an ended registration of a
 * resumed account.
 */
async function resumedTerms(
  sql: Queryable,
  subscriptionPda: string,
  { subscription: previous, now }: PlanView,
  taken: TakenOver,
): Promise<Pick<TakenTerms, 'credit' | 'startsAt' | 'paidThrough'>> {
  const { credit, startsAt } = taken;
  const carried = { credit, startsAt, paidThrough: null };
  if (previous === null || previous.expiresAt <= now) return carried;
  const account = { ...previous, subscriptionPda, periodStart: timeOf(previous.periodStart) };
  return (await readTaken(sql, account, { now: timeOf(now), taken })) ?? carried;
}

/** The running period of the account, if the change resumes an existing account. */
async function runningOf(
  sql: Queryable,
  subscriptionPda: string,
  { subscription: previous, plan, now }: PlanView,
  { parts }: TakenOver,
): Promise<Beginning['running']> {
  if (previous === null || previous.expiresAt <= now) return undefined;
  const period = pullPeriod(previous, plan, now);
  const start = timeOf(period.start);
  if (period.pulled === 0n) return { start, state: 'unpaid' };
  const paid = await readRunning(sql, { subscriptionPda, periodStart: start });
  const isCredited = paid.some(
    ({ id, isCredited: before }) => before || parts.some((one) => one.id === id),
  );
  return { start, state: isCredited && paid.every((one) => !one.isRefunded) ? 'credited' : 'paid' };
}

/** Returns what is due today, and the next two payments after that. */
function firstOf(
  schedule: readonly PaymentRun[],
  asOf: Date,
  periodHours: number,
): Pick<ChangeAmounts, 'today' | 'next' | 'after'> {
  const payments = schedule.flatMap(({ amount, dueAt, times }) =>
    Array.from({ length: Math.min(times ?? MAX_SHOWN, MAX_SHOWN) }, (_, index) => ({
      amount,
      dueAt: timeOf(unixSeconds(dueAt) + BigInt(index) * periodSeconds(BigInt(periodHours))),
    })),
  );
  const [first] = payments;
  const isToday = first !== undefined && first.dueAt <= asOf;
  const [next = null, after = null] = isToday ? payments.slice(1) : payments;
  return { today: isToday ? first.amount : 0n, next, after };
}
/** Maximum number of payments that ChangeAmounts shows (`today`, `next` and `after`). */
const MAX_SHOWN = 3;
