// The keeper's decisions against a random model of wallets, merchants, plans, time and other
// pullers. The keeper itself may read early, late or twice.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import t from 'tap';
import type { SubscriptionAccount } from '../../../src/chain/program/layouts.ts';
import { periodSeconds, pullPeriod } from '../../../src/chain/program/period.ts';
import { timeOf, unixSeconds } from '../../../src/chain/time.ts';
import type { Invoice } from '../../../src/db/invoices/invoices.ts';
import type { AttemptRow } from '../../../src/db/money/payment-attempts.ts';
import type { KeeperSubscription } from '../../../src/db/subscriptions/work.ts';
import { type AttemptEnd, outcomeOf } from '../../../src/domain/collecting/attempt-end.ts';
import type { ChainView, Pull } from '../../../src/domain/collecting/chain-view.ts';
import { decide, registeredAccount } from '../../../src/domain/collecting/decide.ts';
import type { Collectable, Decision } from '../../../src/domain/collecting/decision.ts';
import { upcomingInvoice } from '../../../src/domain/collecting/next-invoice.ts';
import {
  type LookupResult,
  type KnownPull,
  recordPull,
} from '../../../src/domain/collecting/pulls.ts';
import {
  type SubscriptionUpdate,
  updateOf,
  isLive,
} from '../../../src/domain/collecting/transitions.ts';
import { chargeStart } from '../../../src/domain/invoices/cover.ts';
import { asSigned, landedPull } from '../../../src/keeper/read/landed-pull.ts';
import { down } from '../../fixtures/cents.ts';
import { InvoiceBook, planInvoice } from '../../fixtures/invoices.ts';
import {
  keeperSubscription,
  planAccount,
  START,
  subscriptionAccount,
} from '../../fixtures/keeper-subscription.ts';
import { isLong } from '../../fixtures/long.ts';

const HOUR = 3600n;
const keeper = 'keeper';
const rules = {
  keepers: [keeper],
  isOutOfSol: () => false,
  pastDueDays: 7,
  feeBps: 100,
  minimumAmount: 50n,
};
const terms = { amount: 1_000n, periodHours: 24n };
const length = periodSeconds(terms.periodHours);

/** A registration of the address, with its events. */
interface Registration {
  row: KeeperSubscription;
  events: SubscriptionUpdate['events'][number][];
  /** Number of the account that was registered. */
  registered: number;
  /** Number of the account that the keeper read first; null before. */
  opened: number | null;
  /** Start of the newest period for which an attempt was committed; null before. */
  tried: bigint | null;
}

/** A committed attempt, and the end of its transaction. */
interface Attempt {
  attempt: AttemptRow;
  /** The row that it was signed from. */
  row: KeeperSubscription;
  periodEnd: bigint;
  /** Whether its invoice was drawn up with it. */
  drewUp: boolean;
  signedAt: bigint;
  end: 'none' | 'dead' | Pull | Extract<AttemptEnd, { kind: 'failed' }>;
}

/** The state of Postgres. A failover can lose its last changes. */
interface Books extends Registration {
  /** Ended registrations of the address, the oldest first. */
  earlier: Registration[];
  payments: SubscriptionUpdate['payments'][number][];
  invoices: InvoiceBook;
  /** The open attempt of the address. */
  attempt: Attempt | null;
}

interface World extends Books {
  now: bigint;
  slot: bigint;
  plan: ChainView['plan'];
  account: SubscriptionAccount | null;
  authority: ChainView['authority'];
  tokens: NonNullable<ChainView['subscriberTokens']>;
  pulls: Pull[];
  /** Amounts of transactions that the keeper signed and forgot: each may land at any time. */
  strays: { gross: bigint; fee: bigint }[];
  /** Signatures of the strays that landed. */
  forgotten: Set<string>;
  /** Number of the newest account at the address. */
  accounts: number;
  signed: number;
  /** The books after the last commits, the oldest first. */
  commits: Books[];
  /** Outcomes that this sequence of acts has reached. */
  outcomes: Set<string>;
}

const booksOf = ({ row, events, registered, opened, tried, ...world }: World): Books => ({
  ...{ row, registered, opened, tried, attempt: world.attempt },
  events: [...events],
  payments: [...world.payments],
  invoices: world.invoices.copy(),
  earlier: world.earlier.map((one) => ({ ...one, events: [...one.events] })),
});

type Terms = Pick<
  KeeperSubscription,
  'trialEndsAt' | 'discountPercent' | 'discountAmount' | 'discountPeriods' | 'discountId'
>;
const plain: Terms = {
  trialEndsAt: null,
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
  discountId: null,
};

function newWorld(payer: string, given: Terms = plain): World {
  return {
    row: keeperSubscription(START + 10n, given),
    now: START + 10n,
    slot: 10n,
    plan: planAccount(),
    account: subscriptionAccount(START + 10n, { payer }),
    authority: { user: 'wallet', mint: 'mint', payer: 'wallet', bump: 255, initId: 1n },
    tokens: {
      mint: 'mint',
      owner: 'wallet',
      amount: 3_000n,
      delegate: 'sa',
      delegatedAmount: 2n ** 64n - 1n,
      state: 'initialized',
    },
    pulls: [],
    strays: [],
    forgotten: new Set(),
    events: [],
    payments: [],
    invoices: new InvoiceBook(),
    registered: 0,
    opened: null,
    tried: null,
    earlier: [],
    attempt: null,
    accounts: 0,
    signed: 0,
    commits: [],
    outcomes: new Set(),
  };
}

const receiver = (owner: string) =>
  ({
    mint: 'mint',
    owner,
    amount: 0n,
    delegate: null,
    delegatedAmount: 0n,
    state: 'initialized',
  }) as const;

function viewOf(world: World): ChainView {
  return {
    slot: world.slot,
    now: world.now,
    subscription: world.account,
    plan: world.plan,
    authority: world.authority,
    authorityAddress: 'sa',
    subscriberTokens: world.tokens,
    merchantTokens: receiver('merchant'),
    treasuryTokens: receiver('treasury'),
  };
}

/** Moves money as the program would; false when the program would refuse. */
function pullOnChain(
  world: World,
  amount: bigint,
  fee: bigint,
  source: Pull['source'],
  signature = `signature ${world.pulls.length}`,
): boolean {
  const { account, tokens } = world;
  if (
    account === null ||
    world.authority?.initId !== account.initId ||
    tokens.delegate !== 'sa' ||
    tokens.amount < amount
  )
    return false;
  const period = pullPeriod(account, world.plan, world.now);
  if (period.available < amount) return false;
  world.account = { ...account, periodStart: period.start, amountPulled: period.pulled + amount };
  world.tokens = { ...tokens, amount: tokens.amount - amount };
  world.pulls.push({
    signature,
    at: world.now,
    periodStart: period.start,
    periodEnd: period.end,
    gross: amount,
    fee,
    net: amount - fee,
    source,
  });
  return true;
}

function write(world: World, { state, events, payments, invoices }: SubscriptionUpdate): void {
  world.row = { ...world.row, ...state };
  world.events.push(...events);
  const stored = world.invoices.write(world.row.id, invoices);
  world.payments.push(
    ...payments.map((payment) => ({
      ...payment,
      invoice: payment.invoice && stored(payment.invoice),
    })),
  );
}

/** The row as the keeper reads it: with its open invoice, unless an attempt may still pay it. */
const readRow = ({ row, invoices, attempt }: World): KeeperSubscription => ({
  ...row,
  invoice: attempt === null ? invoices.unpaid(row.id) : null,
  discountPeriods: invoices.periodsLeft(row),
});

/** Runs `step` with this registration in the place of the newest one. */
function withRegistration(world: World, id: string, step: () => void): void {
  const index = world.earlier.findIndex(({ row }) => row.id === id);
  const { row, events, registered, opened, tried } = world;
  if (index < 0) {
    if (row.id !== id) throw new Error('an attempt without a registration');
    step();
    return;
  }
  Object.assign(world, world.earlier[index]);
  step();
  world.earlier[index] = {
    ...{ row: world.row, events: world.events },
    ...{ registered: world.registered, opened: world.opened, tried: world.tried },
  };
  Object.assign(world, { row, events, registered, opened, tried });
}

/** From when the subscription is billed once this payment is committed. */
function billedFromOf(row: KeeperSubscription, { invoice, periodStart }: Collectable): Date | null {
  const { coversFrom } = invoice;
  const isLater = unixSeconds(coversFrom!) > chargeStart(row, periodStart);
  return isLater ? coversFrom : row.billedFrom;
}

/** Commits an attempt. Its address has no other open one (unique index). */
function sign(world: World, collect: Collectable): void {
  if (world.attempt !== null) throw new Error('signed beside an open attempt');
  const { gross: amountGross, fee: platformFee, net: amountNet } = collect.amounts;
  world.signed += 1;
  world.row = { ...world.row, billedFrom: billedFromOf(world.row, collect) };
  world.tried = collect.periodStart;
  const isNew = collect.invoice.id === null;
  const stored = world.invoices.write(world.row.id, isNew ? [collect.invoice] : []);
  world.attempt = {
    attempt: {
      invoice: stored(collect.invoice),
      ...{ id: 'attempt', subscriptionId: world.row.id, position: 0, payments: 1 },
      ...{ transaction: Buffer.alloc(0), lastValidBlockHeight: 0n, blockhashSlot: 0n },
      signature: `signed ${world.signed}`,
      periodStart: timeOf(collect.periodStart),
      ...{ amountGross, platformFee, amountNet, feeOwed: collect.feeOwed },
    },
    row: world.row,
    periodEnd: collect.periodEnd,
    drewUp: isNew,
    signedAt: world.now,
    end: 'none',
  };
}

/**
 * Processes the transaction of the open attempt on chain, unless it was processed or its blockhash
 * is dead.
 */
function land(world: World): void {
  const one = world.attempt;
  if (one?.end !== 'none') return;
  const { amountGross: gross, platformFee: fee, signature } = one.attempt;
  const { tokens } = world;
  if (pullOnChain(world, gross, fee, 'keeper', signature)) {
    one.end = world.pulls.at(-1)!;
    if (gross * 2n <= terms.amount) world.outcomes.add('half of the amount or less');
    const { billedFrom } = one.row;
    if (billedFrom !== null && unixSeconds(billedFrom) > one.end.periodStart + length / 2n)
      world.outcomes.add('a pause that ended late');
    return;
  }
  const failure =
    tokens.delegate !== 'sa'
      ? ({ kind: 'subscriber', reason: 'delegate_replaced' } as const)
      : tokens.amount < gross
        ? ({ kind: 'subscriber', reason: 'insufficient_funds' } as const)
        : ({ kind: 'already_collected' } as const);
  one.end = { kind: 'failed', failure, error: failure.kind };
}

/**
 * The pull of a landed attempt, from the account where that is certain, else from the transaction,
 * with the foreign pulls of the periods between.
 */
function paidEnd(world: World, { attempt, periodEnd }: Attempt, pull: Pull): AttemptEnd {
  const account = registeredAccount(world.row, world.account);
  const derived = landedPull(attempt, { view: viewOf(world), account, at: pull.at }, periodEnd);
  if (derived !== undefined && derived.periodStart !== pull.periodStart)
    throw new Error('derived another period than the chain has');
  const signedFor = unixSeconds(attempt.periodStart);
  const isBetween = ({ periodStart: start }: Pull) =>
    start >= signedFor && start < pull.periodStart;
  return {
    kind: 'paid',
    pull: derived ?? asSigned(pull, attempt),
    earlier: world.pulls.filter(isBetween),
  };
}

/**
 * Settles the open attempt once its end is final: processed, or its blockhash is dead (after 90 s).
 */
function settleAttempt(world: World): void {
  const one = world.attempt;
  if (one === null) return;
  if (one.end === 'none' && world.now >= one.signedAt + 90n) one.end = 'dead';
  const { end } = one;
  if (end === 'none') return;
  const { subscriptionId } = one.attempt;
  if (subscriptionId !== world.row.id)
    world.outcomes.add(
      end === 'dead' ? 'expired after its registration' : 'ended after its registration',
    );
  withRegistration(world, subscriptionId, () => {
    const result: AttemptEnd =
      end === 'dead' ? { kind: 'expired' } : 'kind' in end ? end : paidEnd(world, one, end);
    const seen = { view: viewOf(world), now: world.now, mark: (pull: Pull) => mark(world, pull) };
    const { update } = outcomeOf(rules, readRow(world), one, result, seen);
    world.attempt = null;
    write(world, update);
  });
}

/**
 * Whether a payment that was not tried before comes later than the subscriber had access: 72 hours
 * after what it had, or ten minutes after the time from which it would pay.
 */
function comesLate(row: KeeperSubscription, start: bigint, now: bigint): boolean {
  const { status, trialEndsAt, paidThrough, nextPaymentDue } = row;
  if (status !== 'active' || nextPaymentDue === null) return false;
  const billed = row.billedFrom === null ? 0n : unixSeconds(row.billedFrom);
  if (now <= billed + 600n) return false;
  const [trial, paid] = [trialEndsAt, paidThrough].map((at) =>
    at === null ? 0n : unixSeconds(at),
  ) as [bigint, bigint];
  const had = paid > trial ? paid : trial;
  return had > 0n ? now > had + 72n * HOUR : now > start + 600n;
}

/**
 * The amount to collect for a period: the discounted price, reduced to the part outside a trial or
 * pause, from a late first try on, and before the plan's end.
 */
function expected(row: KeeperSubscription, start: bigint, end: bigint): bigint {
  const { discountPercent, discountAmount, discountPeriods, trialEndsAt } = row;
  const isOff = discountPeriods !== 0;
  const percent = isOff ? BigInt(discountPercent ?? 0) : 0n;
  const off = isOff ? (discountAmount ?? 0n) : 0n;
  const price = down(terms.amount, ((terms.amount - off) * (100n - percent)) / 100n);
  const froms = [trialEndsAt, row.billedFrom].map((at) => (at === null ? start : unixSeconds(at)));
  const from = froms.reduce((last, at) => (at > last ? at : last), start);
  if (end - from >= length) return price;
  const part = from < end ? down(terms.amount, (price * (end - from)) / length) : 0n;
  return part < rules.minimumAmount ? 0n : part;
}

/** The amount of the invoice that stands for the period, or else of one that is drawn up now. */
function owed(
  { invoice }: KeeperSubscription,
  row: KeeperSubscription,
  start: bigint,
  end: bigint,
): bigint {
  const isOpen = invoice?.state === 'open';
  const stands = isOpen && invoice.periodStart?.getTime() === Number(start) * 1000;
  const wasPaused =
    row.billedFrom !== null && invoice !== null && row.billedFrom > invoice.coversFrom!;
  return stands && !wasPaused ? invoice.amountDue : expected(row, start, end);
}

function recorded(world: World, pull: Pull): boolean {
  return world.payments.some(({ txSignature }) => txSignature === pull.signature);
}

function billedOf({ invoices, attempt }: World, { periodStart }: Pull): Pick<KnownPull, 'billed'> {
  const billed = invoices.billed(periodStart);
  const isInFlight = billed?.id === attempt?.attempt.invoice.id;
  return billed === undefined || isInFlight ? {} : { billed };
}

/** Marks a pull with what the books have about it. */
const mark = (world: World, pull: Pull): KnownPull => ({
  ...pull,
  ...billedOf(world, pull),
  recorded: recorded(world, pull),
  isPeriodPaid: world.payments.some(
    ({ status, periodStart }) =>
      status === 'succeeded' && unixSeconds(periodStart) === pull.periodStart,
  ),
});

/** As `billing reconcile --repair`: the keeper's pulls that the books lack, the oldest first. */
function reconcile(world: World): void {
  for (const pull of world.pulls.filter(({ source }) => source === 'keeper')) {
    if (recorded(world, pull)) continue;
    const update = updateOf(readRow(world));
    recordPull(update, mark(world, pull), timeOf(pull.periodEnd));
    if (isLive(update.state)) update.state.dueAt = timeOf(pull.at);
    write(world, update);
  }
}

/**
 * Checks that a period that became paid without a payment costs nothing, or less than the minimum
 * for a part of it.
 */
function checkUncollected(world: World, before: KeeperSubscription): void {
  const { row, payments, account } = world;
  if (row.paidThrough === null || account === null) return;
  if (before.paidThrough !== null && row.paidThrough <= before.paidThrough) return;
  const isPaid = payments.some(
    ({ status, periodEnd }) =>
      status === 'succeeded' && periodEnd.getTime() === row.paidThrough?.getTime(),
  );
  if (isPaid) return;
  const { start, end } = pullPeriod(account, world.plan, world.now);
  const { billedFrom } = row;
  const { discountPeriods } = readRow(world);
  const terms = { ...before, billedFrom, discountPeriods };
  if (end !== unixSeconds(row.paidThrough) || expected(terms, start, end) !== 0n)
    throw new Error('a period that costs something was not collected');
}

/**
 * The pulls in the history that the keeper reads for this registration, newest first (assess.ts).
 */
function history(world: World): KnownPull[] {
  const { row, now } = world;
  const account = registeredAccount(row, world.account);
  const anchor = row.periodAnchor === null ? now : unixSeconds(row.periodAnchor);
  const first = account?.periodStart ?? anchor;
  const paidThrough = row.paidThrough === null ? null : unixSeconds(row.paidThrough);
  const isPaid = account !== null && paidThrough !== null && paidThrough > account.periodStart;
  const since = paidThrough === null || isPaid ? first : paidThrough;
  const found = world.pulls.filter(({ periodStart }) => periodStart >= since);
  return found.reverse().map((pull) => mark(world, pull));
}

function decided(world: World, closes: boolean): Decision {
  const view = viewOf(world);
  let lookups: LookupResult = {};
  for (;;) {
    const decision = decide(readRow(world), view, rules, lookups);
    if (decision.needs === 'pulls') {
      lookups = { ...lookups, pulls: history(world) };
    } else if (decision.needs === 'closing') {
      if (closes) {
        world.account = null;
        world.slot += 1n;
        return decide(readRow(world), viewOf(world), rules, lookups);
      }
      lookups = { ...lookups, closingFailed: true };
    } else return decision;
  }
}

/**
 * Checks that a payment of an active subscription is announced within a quarter of its period
 * before it is due, and whether the wallet can pay.
 */
function checkLookAhead(world: World, { events }: SubscriptionUpdate): void {
  const { row, account, tokens, authority, now } = world;
  for (const { type, extra } of events) {
    if (type !== 'renewal_upcoming') continue;
    if (row.status !== 'active' || row.cancelRequestedAt !== null || account?.expiresAt !== 0n)
      throw new Error('announced a payment that nobody will collect');
    const approved = tokens.delegate === 'sa' && authority?.initId === account.initId;
    const amount = extra?.amount as bigint;
    const issue = approved
      ? tokens.amount < amount
        ? 'insufficient_balance'
        : null
      : 'approval_missing';
    if (extra?.issue !== issue || extra.canPay !== (issue === null))
      throw new Error(`announced ${JSON.stringify(extra?.issue)} instead of ${String(issue)}`);
  }
  const { nextPaymentDue: due, dueAt } = row;
  if (row.status !== 'active' || row.cancelRequestedAt !== null || row.setbacks > 0) return;
  if (due === null || unixSeconds(due) <= now || registeredAccount(row, account) === null) return;
  const lookAhead = unixSeconds(due) - length / 4n;
  const isAnnounced = row.announcedDue?.getTime() === due.getTime();
  if (!isAnnounced && (lookAhead <= now || dueAt === null || unixSeconds(dueAt) > lookAhead))
    throw new Error('a payment is due that will not be announced');
}

interface Turn {
  delay: bigint;
  /** The transaction does not land now: never, or after the keeper has forgotten it. */
  lost: boolean;
  /** The attempt stays open. */
  open: boolean;
  closes: boolean;
  size: number;
}

/** Checks a payment before it is signed, against the row that it was decided from. */
function checkCollected(world: World, before: KeeperSubscription, collect: Collectable): void {
  const { amounts, periodStart, periodEnd } = collect;
  if (!isLive(before) || world.row.cancelRequestedAt !== null)
    throw new Error('collected after the end or a cancellation');
  if (before.paidThrough !== null && unixSeconds(before.paidThrough) > periodStart)
    throw new Error('collected a paid period');
  if (world.opened !== world.accounts)
    throw new Error('collected from another subscription at the same address');
  if (before.pausedAt !== null) throw new Error('collected while paused');
  if (before.trialEndsAt !== null && unixSeconds(before.trialEndsAt) > world.now)
    throw new Error('collected in the trial');
  const isLate = world.tried !== periodStart && comesLate(world.row, periodStart, world.now);
  if (isLate) world.outcomes.add('a late first try');
  // A pull that was found in the same decision may have been late and have used the discount.
  const { discountPeriods } = readRow(world);
  const billedFrom = isLate ? timeOf(world.now) : world.row.billedFrom;
  const from = timeOf(chargeStart({ ...before, billedFrom }, periodStart));
  if (from.getTime() !== collect.invoice.coversFrom?.getTime())
    throw new Error('billed from elsewhere');
  const gross = owed(before, { ...before, discountPeriods, billedFrom }, periodStart, periodEnd);
  if (gross > terms.amount) throw new Error('above the ceiling');
  if (gross === 0n) throw new Error('collected what costs more than it brings');
  if (amounts.gross !== gross || amounts.fee !== gross / 100n || periodEnd - periodStart > length)
    throw new Error('collected another amount');
  if (periodEnd - world.now <= 60n) throw new Error("signed right before the period's end");
}

/**
 * Checks that the invoice of a payment is what was previewed at the same time. What the row lacks
 * cannot be previewed: its period, a resume on chain, an earlier end of the plan.
 */
function checkPreview(
  { now }: World,
  before: KeeperSubscription,
  { invoice, amounts, periodStart, periodEnd }: NonNullable<Decision['collect']>,
): void {
  if (before.periodAnchor === null || before.nextPaymentDue === null) return;
  if (periodEnd - periodStart < length) return;
  const preview = upcomingInvoice(before, { asOf: timeOf(now), minimum: rules.minimumAmount });
  const shown = (one: Invoice | null) =>
    one && [one.id, one.lines, one.creditApplied, one.amountDue, one.coversFrom, one.coversTo];
  if (!isDeepStrictEqual(shown(preview), shown(invoice)) || preview?.amountDue !== amounts.gross)
    throw new Error('collected another invoice than was previewed');
}

/** Checks that a payment that failed unsent has the amount that is charged from then on. */
function checkFailed(world: World, before: KeeperSubscription, update: SubscriptionUpdate): void {
  for (const { status, periodStart, periodEnd, amountGross } of update.payments) {
    if (status !== 'failed') continue;
    const [start, end] = [unixSeconds(periodStart), unixSeconds(periodEnd)];
    const { billedFrom, discountPeriods } = readRow(world);
    if (amountGross !== owed(before, { ...before, billedFrom, discountPeriods }, start, end))
      throw new Error('failed with another amount');
    // The same decision may have recorded a pull that paid the overdue period.
    const isPaid = update.payments.some((payment) => payment.status === 'succeeded');
    const isRetry = world.tried === start || (before.status === 'past_due' && !isPaid);
    const moved = world.row.billedFrom?.getTime() !== before.billedFrom?.getTime();
    if (isRetry && moved) throw new Error('a retry of another amount');
    if (moved) world.outcomes.add('a late failure');
  }
}

const whileInFlight = [
  ...['merchantForces', 'merchantCancels', 'pause', 'discount', 'strayLands'],
  ...['resubscribe', 'failover', 'pauseUntilLate', 'pass'],
];

/**
 * One turn of the keeper: its decision is applied, its transaction lands `delay` seconds later,
 * later or never.
 */
function turn(world: World, { delay, lost, open, closes, size }: Turn): void {
  const before = structuredClone(readRow(world));
  const decision = decided(world, closes);
  if (decision.alert?.reason === 'period_mismatch')
    throw new Error(`${decision.alert.reason}: ${decision.alert.detail ?? ''}`);
  write(world, decision.update);
  if (world.row.periodAnchor !== null) world.opened ??= world.accounts;
  if (decision.collect !== undefined) {
    checkCollected(world, before, decision.collect);
    if (decision.update.payments.length === 0) checkPreview(world, before, decision.collect);
    sign(world, decision.collect);
    if (lost && size % 2 === 0) forget(world);
    if (lost || open) return;
    world.now += delay;
    const act = whileInFlight[size % whileInFlight.length]!;
    acts[act]!(world, act === 'merchantForces' ? 0 : size);
    land(world);
    settleAttempt(world);
    return;
  }
  checkLookAhead(world, decision.update);
  checkFailed(world, before, decision.update);
  checkUncollected(world, before);
  if (before.cancelRequestedBy === 'merchant' && world.row.cancelRequestedBy !== 'merchant')
    throw new Error("a merchant's request was taken back");
  if (!isLive(before) && world.row.status !== before.status) throw new Error('an end is final');
  const account = registeredAccount(world.row, world.account);
  if (isLive(before) && account !== null) {
    const moved = world.pulls.filter(({ periodStart }) => periodStart === account.periodStart);
    if (!moved.every((pull) => recorded(world, pull)))
      throw new Error('what anybody pulled in the period is in the books');
  }
  // The same decision again adds nothing.
  const { events, payments } = decided(world, closes).update;
  const news = events.filter(({ type }) => type !== 'payment_failed');
  if (news.length > 0 || payments.some(({ status }) => status === 'succeeded')) {
    throw new Error(`told twice: ${JSON.stringify(events.map(({ type }) => type))}`);
  }
}

function assert(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

/** Checks the registration, then the money of its address. */
function check(world: World): void {
  checkRegistration(world);
  for (const { row } of world.earlier) {
    withRegistration(world, row.id, () => {
      checkRegistration(world);
    });
    assert(!isLive(row), 'an address has one live registration');
  }
  checkMoney(world);
}

function checkRegistration({ row, payments, events }: World): void {
  // The constraints of the table.
  assert(
    (row.cancelRequestedAt === null) === (row.cancelRequestedBy === null),
    'a cancel request is whole',
  );
  assert((row.status === 'cancelled') === (row.cancelledAt !== null), 'cancelled has its time');
  assert((row.status === 'past_due') === (row.pastDueSince !== null), 'past due has its start');
  assert(!isLive(row) || row.dueAt !== null, 'a live subscription has a timer');
  assert(isLive(row) || row.nextPaymentDue === null, 'nothing is due after the end');
  assert(row.pausedAt === null || row.nextPaymentDue === null, 'nothing is due while paused');
  assert(row.pausedAt === null || row.status !== 'past_due', 'dunning stops while paused');
  const upcoming = events.flatMap(({ type, extra }) =>
    type === 'renewal_upcoming' ? [(extra?.dueAt as Date).getTime()] : [],
  );
  assert(new Set(upcoming).size === upcoming.length, 'each due payment is announced once');
  // Ends and revocations.
  const paid = payments.filter(
    ({ status, further, subscriptionId }) =>
      status === 'succeeded' && !further && subscriptionId === row.id,
  );
  const ends = events.filter(
    ({ type, extra }) =>
      type === 'cancel_finalized' || (type === 'payment_failed' && extra?.final === true),
  );
  assert(
    !isLive(row) || paid.every(({ periodEnd }) => row.paidThrough! >= periodEnd),
    'paid through',
  );
  assert(
    ends.length <= 1 && (isLive(row) || row.endReason === 'forced' || ends.length === 1),
    'one end',
  );
  const asked = events.filter(({ type }) => type === 'cancel_requested').length;
  assert(
    asked - events.filter(({ type }) => type === 'subscription_resumed').length <= 1,
    'a cancellation is told once',
  );
}

function checkMoney({ payments, pulls, events, earlier, forgotten, invoices }: World): void {
  const told = [...earlier.flatMap((one) => one.events), ...events];
  const succeeded = payments.filter(({ status }) => status === 'succeeded');
  const paid = succeeded.filter(({ further }) => !further);
  assert(
    new Set(paid.map(({ periodStart }) => periodStart.getTime())).size === paid.length,
    'one payment a period',
  );
  assert(
    new Set(succeeded.map(({ txSignature }) => txSignature)).size === succeeded.length,
    'one payment a pull',
  );
  for (const payment of succeeded) {
    const pull = pulls.find(({ signature }) => signature === payment.txSignature);
    assert(
      pull !== undefined && pull.gross === payment.amountGross && pull.fee === payment.platformFee,
      'recorded is what moved',
    );
  }
  const furthers = succeeded.filter(({ further }) => further);
  for (const { periodStart } of furthers) {
    const billed = invoices.billed(unixSeconds(periodStart));
    assert(
      (billed !== undefined && billed.state !== 'open') ||
        paid.some((payment) => payment.periodStart.getTime() === periodStart.getTime()),
      'a further pull is in a period that is paid, or billed and closed',
    );
  }
  assert(
    told.filter(({ type }) => type === 'payment_success').length === paid.length,
    'each payment is told once',
  );
  for (const { invoice, amountGross } of paid) {
    assert(invoice?.state === 'paid', 'a payment pays its invoice');
    assert(invoice?.amountDue === amountGross, 'an invoice is paid with what is due');
  }
  const ids = succeeded.flatMap(({ invoice }) => invoice?.id ?? []);
  assert(new Set(ids).size === ids.length, 'an invoice is paid once');
  invoices.check();
  // No period is pulled twice by attempts that the keeper knows.
  const known = pulls.filter(
    ({ source, signature }) => source === 'keeper' && !forgotten.has(signature),
  );
  assert(
    new Set(known.map(({ periodStart }) => periodStart)).size === known.length,
    'one pull of ours a period',
  );
}

let discounts = 0;

/** A percentage, an amount or no discount; for some payments or all. */
const randomDiscount = (size: number) => ({
  discountId: size % 3 === 2 ? null : `discount ${(discounts += 1)}`,
  discountPercent: size % 3 === 0 ? 1 + (size % 99) : null,
  discountAmount: size % 3 === 1 ? 1n + BigInt(size % 900) : null,
  discountPeriods: size % 3 === 2 || size % 2 === 0 ? null : size % 4,
});

const acts: Record<string, (world: World, size: number) => void> = {
  pass: (world, size) => void (world.now += BigInt(size)),
  toBoundary(world, size) {
    const start = world.account?.periodStart ?? world.now;
    world.now += length - ((world.now - start) % length) + BigInt(size % 3) - 1n;
  },
  toDue(world) {
    if (world.row.dueAt !== null && unixSeconds(world.row.dueAt) > world.now)
      world.now = unixSeconds(world.row.dueAt);
  },
  skip: (world, size) => void (world.now += length * BigInt(1 + (size % 4))),
  fund: (world, size) =>
    void (world.tokens = {
      ...world.tokens,
      amount: world.tokens.amount + BigInt(size % 5) * 700n,
    }),
  drain: (world) => void (world.tokens = { ...world.tokens, amount: 0n }),
  revoke: (world) => void (world.tokens = { ...world.tokens, delegate: null, delegatedAmount: 0n }),
  approve: (world) =>
    void (world.tokens = { ...world.tokens, delegate: 'sa', delegatedAmount: 2n ** 64n - 1n }),
  rotate: (world, size) =>
    void (world.authority =
      size % 2 === 0
        ? null
        : { user: 'wallet', mint: 'mint', payer: 'wallet', bump: 255, initId: 2n }),
  restore: (world) =>
    void (world.authority = {
      user: 'wallet',
      mint: 'mint',
      payer: 'wallet',
      bump: 255,
      initId: 1n,
    }),
  cancel(world) {
    if (world.account?.expiresAt !== 0n) return;
    const { start } = pullPeriod(world.account, world.plan, world.now);
    world.account = {
      ...world.account,
      expiresAt: world.plan === null ? world.now : start + length,
    };
  },
  resume(world) {
    if (world.account !== null && world.account.expiresAt > world.now)
      world.account = { ...world.account, expiresAt: 0n };
  },
  close(world) {
    if (
      world.account !== null &&
      world.account.expiresAt !== 0n &&
      world.account.expiresAt <= world.now
    )
      world.account = null;
  },
  reopen(world) {
    if (world.account !== null || world.plan === null) return;
    // The pull must not begin on a period boundary of an old account, because the two could not be
    // told apart.
    const rows = [world.row, ...world.earlier.map(({ row }) => row)];
    const anchors = rows.flatMap(({ periodAnchor }) =>
      periodAnchor === null ? [] : [unixSeconds(periodAnchor)],
    );
    while (anchors.some((anchor) => (world.now - anchor) % length === 0n)) world.now += 1n;
    world.account = subscriptionAccount(world.now);
    world.accounts += 1;
  },
  replace(world) {
    acts.cancel!(world, 0);
    acts.skip!(world, 0);
    acts.close!(world, 0);
    acts.reopen!(world, 0);
  },
  /**
   * The account is registered (registration.ts); a live registration of an earlier account ends.
   */
  register(world, size) {
    const { account, plan, row, earlier } = world;
    if (account?.expiresAt !== 0n || plan?.status !== 'active' || plan.createdAt !== START) return;
    const isSame = (world.opened ?? world.registered) === world.accounts;
    if (isSame && (isLive(row) || row.endReason === 'forced')) return;
    // An account that is registered anew is charged from then on, later than what had ended.
    if (isSame) world.now += 1n;
    const now = timeOf(world.now);
    if (isLive(row)) {
      world.row = {
        ...row,
        status: 'cancelled',
        cancelledAt: now,
        cancelRequestedAt: row.cancelRequestedAt ?? now,
        cancelRequestedBy: row.cancelRequestedBy ?? 'subscriber',
        endReason: 'resubscribed',
        ...{ pastDueSince: null, nextPaymentDue: null, dueAt: now },
      };
      world.events.push({ type: 'cancel_finalized' });
    }
    const { events, registered, opened, tried } = world;
    const last = { row: world.row, events, registered, opened, tried };
    world.earlier = [...earlier, last].map((one) => {
      const successor =
        one.registered === world.accounts ? 'same_account' : (one.row.successor ?? 'other_account');
      return { ...one, row: { ...one.row, successor } };
    });
    const hours = [0n, 13n, 23n, 100n][size % 4]!;
    const hadTrial = world.earlier.some((one) => one.row.trialEndsAt !== null);
    const { start } = pullPeriod(account, plan, world.now);
    const trialEndsAt = hadTrial || hours === 0n ? null : timeOf(start + hours * HOUR);
    world.row = keeperSubscription(world.now, {
      id: `subscription ${world.earlier.length}`,
      observedSlot: world.slot - 1n,
      trialEndsAt,
      nextPaymentDue: trialEndsAt !== null && trialEndsAt > now ? trialEndsAt : now,
      billedFrom: isSame ? now : null,
      ...randomDiscount(size),
    });
    Object.assign(world, { events: [], registered: world.accounts, opened: null, tried: null });
    world.outcomes.add('replaced registration');
  },
  /**
   * Replaced and registered at once; an open attempt of the old account may land before, after or
   * never.
   */
  resubscribe(world, size) {
    if (size % 3 === 0) land(world);
    acts.replace!(world, 0);
    acts.register!(world, size);
    if (size % 3 === 1) land(world);
  },
  attemptLands: land,
  /** A failover loses the last commits; the keeper forgets what it signed in them. */
  failover(world, size) {
    const found = world.commits[size % world.commits.length];
    if (found === undefined) return;
    if (world.attempt !== null && world.attempt !== found.attempt) forget(world);
    if (world.payments.length > found.payments.length) world.outcomes.add('lost payment');
    world.commits = world.commits.slice(0, size % world.commits.length);
    Object.assign(world, found);
  },
  /** `billing reconcile --repair`, which waits while an attempt is open. */
  reconcile(world) {
    if (world.attempt === null) reconcile(world);
  },
  merchantCancels(world) {
    if (!isLive(world.row) || world.row.cancelRequestedAt !== null) return;
    const now = timeOf(world.now);
    world.row = {
      ...world.row,
      cancelRequestedAt: now,
      cancelRequestedBy: 'merchant',
      nextPaymentDue: null,
      dueAt: world.row.paidThrough ?? now,
    };
    world.events.push({ type: 'cancel_requested' });
  },
  pause(world) {
    const { row } = world;
    if (!isLive(row) || row.cancelRequestedAt !== null || row.pausedAt !== null) return;
    const now = timeOf(world.now);
    closeOpen(world, 'ended');
    world.row = {
      ...row,
      pausedAt: now,
      status: 'active',
      pastDueSince: null,
      failedAttempts: 0,
      nextPaymentDue: null,
      dueAt: now,
    };
  },
  unpause(world) {
    const { row } = world;
    if (!isLive(row) || row.cancelRequestedAt !== null || row.pausedAt === null) return;
    world.now += 1n;
    const now = timeOf(world.now);
    const due = [row.paidThrough, row.trialEndsAt].reduce<Date>(
      (last, at) => (at !== null && at > last ? at : last),
      now,
    );
    world.row = { ...row, pausedAt: null, billedFrom: now, nextPaymentDue: due, dueAt: due };
    // The pause has closed the invoice of the earlier try.
    world.tried = null;
  },
  /** A pause that ends in the second half of a period. */
  pauseUntilLate(world, size) {
    acts.pause!(world, 0);
    const start = world.account?.periodStart ?? world.now;
    const left = length - ((world.now - start) % length);
    const late = left - 61n - (BigInt(size) % (length / 2n));
    if (late > 0n) world.now += late;
    acts.unpause!(world, 0);
  },
  discount(world, size) {
    if (!isLive(world.row)) return;
    if (world.row.status === 'past_due') closeOpen(world, 'replaced');
    world.row = { ...world.row, ...randomDiscount(size) };
  },
  merchantForces(world, size) {
    if (!isLive(world.row) || size % 4 !== 0) return;
    closeOpen(world, 'ended');
    const now = timeOf(world.now);
    const cancel = {
      cancelRequestedAt: world.row.cancelRequestedAt ?? now,
      cancelRequestedBy: world.row.cancelRequestedBy ?? 'merchant',
    } as const;
    world.row = {
      ...world.row,
      ...cancel,
      status: 'cancelled',
      cancelledAt: now,
      endReason: 'forced',
      pastDueSince: null,
      nextPaymentDue: null,
      dueAt: null,
    };
  },
  /**
   * The end is after the start of each registered account (registration refuses others), and not in
   * this very second.
   */
  endPlan(world, size) {
    if (world.plan?.endTs === 0n && size % 3 === 0)
      world.plan = {
        ...world.plan,
        status: 'sunset',
        endTs: world.now + 1n + BigInt(size % 90_000),
      };
  },
  closePlan(world) {
    if (world.plan === null || world.plan.endTs === 0n) return;
    if (world.now <= world.plan.endTs) world.now = world.plan.endTs + 1n;
    world.plan = null;
  },
  recreatePlan(world) {
    world.plan ??= { ...newWorld('wallet').plan!, createdAt: world.now };
  },
  strayLands(world) {
    const stray = world.strays.shift();
    if (stray === undefined || !pullOnChain(world, stray.gross, stray.fee, 'keeper')) return;
    world.forgotten.add(world.pulls.at(-1)!.signature);
  },
  foreignPull: (world, size) =>
    void pullOnChain(world, size % 2 === 0 ? terms.amount : 1n + BigInt(size % 900), 0n, 'foreign'),
};

/** Closes the open invoice as `serve` does: unless an attempt may still pay it. */
function closeOpen(world: World, reason: 'ended' | 'replaced'): void {
  if (world.attempt === null) world.invoices.close(world.row.id, reason, world.now);
}

/** The commit of the open attempt, and of its invoice, is lost; its transaction may still land. */
function forget(world: World): void {
  const { end, attempt, drewUp } = world.attempt!;
  if (end === 'none') world.strays.push({ gross: attempt.amountGross, fee: attempt.platformFee });
  if (drewUp) {
    world.invoices.forget(attempt.invoice);
    world.tried = null;
  }
  world.attempt = null;
}

/** The keeper settles the open attempt, or decides about due registrations. */
function look(world: World, early: boolean, how: Turn): void {
  if (world.attempt !== null) {
    settleAttempt(world);
    return;
  }
  const isDue = ({ dueAt }: KeeperSubscription) =>
    dueAt !== null && (early || unixSeconds(dueAt) <= world.now);
  for (const { row } of world.earlier)
    if (isDue(row))
      withRegistration(world, row.id, () => {
        turn(world, how);
      });
  if (isDue(world.row)) turn(world, how);
}

/** A trial of some hours, and a discount, or neither. */
const given: fc.Arbitrary<Terms> = fc
  .record({ hours: fc.constantFrom(0, 0, 7, 13, 23, 24, 100), size: fc.nat(100_000) })
  .map(({ hours, size }) => ({
    ...randomDiscount(size),
    trialEndsAt: hours === 0 ? null : timeOf(START + 10n + BigInt(hours) * HOUR),
  }));

const step = fc.record({
  act: fc.constantFrom(...Object.keys(acts)),
  size: fc.integer({ min: 0, max: 100_000 }),
  early: fc.boolean(),
  /** The keeper is down for this step. */
  away: fc.boolean(),
  delay: fc.constantFrom(0n, 1n, 90n, HOUR),
  lost: fc.boolean(),
  open: fc.boolean(),
  closes: fc.boolean(),
});

void t.test(
  'after random events a period has one payment, nothing is paid after an end, and books equal the chain',
  async (t) => {
    const outcomes = new Set<string>();
    fc.assert(
      fc.property(
        fc.constantFrom('wallet', keeper),
        given,
        fc.array(step, { maxLength: 60, size: 'max' }),
        (payer, ofIt, steps) => {
          const world = newWorld(payer, ofIt);
          for (const { act, size, early, away, ...how } of steps) {
            world.slot += 1n;
            world.commits = [...world.commits.slice(-3), booksOf(world)];
            acts[act]!(world, size);
            if (!away) look(world, early, { ...how, size });
            check(world);
          }
          world.now += 90n;
          settleAttempt(world);
          reconcile(world);
          check(world);
          for (const pull of world.pulls)
            if (pull.source === 'keeper' && !recorded(world, pull))
              throw new Error('a pull of the keeper is not in the books');
          for (const outcome of world.outcomes) outcomes.add(outcome);
          for (const { further, source } of world.payments)
            if (further) outcomes.add(`further ${source}`);
          outcomes.add(`${world.row.status} ${world.row.endReason ?? ''}`);
          for (const { type } of world.events) outcomes.add(type);
        },
      ),
      { numRuns: Number(process.env.TEST_RUNS ?? (isLong ? 10_000 : 6000)) },
    );
    // The sequences reached all outcomes.
    const seen = [
      'active ',
      'past_due ',
      'cancelled ',
      'expired past_due',
      'expired plan_ended',
      'expired plan_closed',
      'payment_success',
      'payment_failed',
      'further keeper',
      'further foreign',
      'half of the amount or less',
      'a pause that ended late',
      'a late first try',
      'a late failure',
      'replaced registration',
      'expired after its registration',
      'ended after its registration',
      'lost payment',
    ];
    for (const outcome of [
      ...seen,
      'cancel_requested',
      'cancel_finalized',
      'delegation_revoked',
      'subscription_resumed',
      'renewal_upcoming',
    ]) {
      t.ok(outcomes.has(outcome), `it came to ${outcome}`);
    }
  },
);

void t.test('a state older than the row’s observed slot is ignored', async (t) => {
  const world = newWorld('wallet');
  const row = { ...world.row, observedSlot: 11n };
  const cancelled = { ...world.account!, expiresAt: START + 20n };
  const { update, collect } = decide(row, { ...viewOf(world), subscription: cancelled }, rules);
  t.same(update.events, []);
  t.equal(collect, undefined);
  t.equal(update.state.status, 'active');
});

void t.test('a new registration does not end while an endpoint lacks its account', async (t) => {
  const world = newWorld('wallet');
  const view = { ...viewOf(world), subscription: null };
  const young = decide({ ...world.row, ageSeconds: 20 }, view, rules);
  t.same(young.update.events, []);
  t.equal(young.update.state.dueAt?.getTime(), Number(world.now + 10n) * 1000);
  const old = decide({ ...world.row, ageSeconds: 200 }, view, rules);
  t.same(
    old.update.events.map(({ type }) => type),
    ['cancel_requested', 'cancel_finalized'],
  );
});

void t.test(
  'a subscription whose account only the registration has read does not end within two minutes',
  async (t) => {
    const world = newWorld('wallet');
    const view = { ...viewOf(world), subscription: null };
    const happens = (row: Partial<KeeperSubscription>) =>
      decide({ ...world.row, ...row }, view, rules).update.events.length > 0;
    t.notOk(happens({ observedSlot: view.slot - 1n, ageSeconds: 20 }));
    t.notOk(happens({ observedSlot: view.slot, ageSeconds: 1000 }));
    t.ok(happens({ observedSlot: view.slot - 1n, ageSeconds: 1000 }));
  },
);

void t.test('a revoked delegation is not repaired by closing the token account', async (t) => {
  const world = newWorld('wallet');
  const row = { ...world.row, delegationRevokedAt: timeOf(START) };
  const closed = decide(row, { ...viewOf(world), subscriberTokens: null }, rules).update;
  t.same(closed.state.delegationRevokedAt, row.delegationRevokedAt);
  const opened = decide(
    { ...row, ...closed.state },
    { ...viewOf(world), subscriberTokens: { ...world.tokens, delegate: null } },
    rules,
  ).update;
  t.notOk(
    opened.events.some(({ type }) => type === 'delegation_revoked'),
    'told once',
  );
  t.equal(
    decide({ ...row, ...closed.state }, viewOf(world), rules).update.state.delegationRevokedAt,
    null,
    'an approval repairs it',
  );
});

void t.test(
  'the earlier of two pulls pays the period, also when both are found together and newest first',
  async (t) => {
    const world = newWorld('wallet');
    const { periodStart } = world.account!;
    const pull = {
      periodStart,
      periodEnd: periodStart + 3600n,
      fee: 0n,
      source: 'foreign' as const,
      recorded: false,
      isPeriodPaid: false,
    };
    const later = { ...pull, signature: 'later', at: periodStart + 9n, gross: 20n, net: 20n };
    const earlier = { ...pull, signature: 'earlier', at: periodStart + 3n, gross: 10n, net: 10n };
    const view = { ...viewOf(world), subscription: { ...world.account!, amountPulled: 30n } };
    for (const pulls of [
      [later, earlier],
      [later, { ...earlier, at: later.at }],
    ]) {
      const { payments } = decide(world.row, view, rules, { pulls, pulledFinally: true }).update;
      t.match(payments, [
        { txSignature: 'earlier', further: false },
        { txSignature: 'later', further: true },
      ]);
    }
  },
);

void t.test(
  'while a landed change of plan is not registered, no payment is collected or counted as failed',
  async (t) => {
    const world = newWorld('wallet');
    const lookups = { hasChanged: true } as const;
    t.ok(decide(world.row, viewOf(world), rules).collect !== undefined);
    for (const row of [world.row, { ...world.row, credit: 1_000_000n }]) {
      const { update, ...others } = decide(row, viewOf(world), rules, lookups);
      t.same(others, {});
      t.match(update, {
        events: [],
        payments: [],
        invoices: [],
        state: { status: 'active' },
      });
      t.same(update.state.dueAt, timeOf(world.now + 10n));
    }
    const broke = { ...viewOf(world), subscriberTokens: null };
    t.match(decide(world.row, broke, rules, lookups).update.state, { failedAttempts: 0 });
  },
);

void t.test('a keeper failure keeps the status and is retried', async (t) => {
  const world = newWorld('wallet');
  const broke = { ...rules, isOutOfSol: () => true };
  const { update, alert, collect } = decide(world.row, viewOf(world), broke);
  t.same([collect, alert], [undefined, undefined]);
  t.match(update.state, { status: 'active', failedAttempts: 0, setbacks: 1 });
  t.same(update.events, []);
});

void t.test(
  'an obstacle of the plan blocks the plan: its subscriptions wait and no keeper failure is counted',
  async (t) => {
    const length = periodSeconds(terms.periodHours);
    for (const status of ['active', 'past_due'] as const) {
      const world = newWorld('wallet');
      const plan = { ...world.plan!, pullers: [] };
      const since = status === 'past_due' ? timeOf(START) : null;
      const row = { ...world.row, status, pastDueSince: since, failedAttempts: since ? 1 : 0 };
      const { update, alert, blocks, collect } = decide(row, { ...viewOf(world), plan }, rules);
      t.same([collect, alert, blocks], [undefined, undefined, 'not_a_puller']);
      t.same(update.events, []);
      t.same(update.state, {
        ...updateOf(row).state,
        observedSlot: world.slot,
        periodAnchor: timeOf(world.account!.periodStart),
        chainInitId: world.account!.initId,
        chainPeriodStart: timeOf(world.account!.periodStart),
        dueAt: timeOf(world.account!.periodStart + length),
      });
    }
  },
);

void t.test('a live registration stores the identity of the account that it collects from', (t) => {
  const world = newWorld('wallet');
  const { initId, periodStart } = world.account!;
  const other = { chainInitId: initId - 1n, chainPeriodStart: timeOf(periodStart - 5n) };
  const own = { chainInitId: initId, chainPeriodStart: timeOf(periodStart) };
  const row = { ...world.row, ...other };
  t.match(decide(row, viewOf(world), rules).update.state, own);
  const read = { ...row, periodAnchor: timeOf(periodStart) };
  t.match(decide(read, viewOf(world), rules).update.state, own, 'also if it was read before');
  const ended = { ...row, status: 'cancelled' as const };
  t.match(decide(ended, viewOf(world), rules).update.state, other, 'an ended one keeps its own');
  t.end();
});

void t.test(
  'without a treasury that can receive, the merchant gets all of it and the fee is owed',
  async (t) => {
    const world = newWorld('wallet');
    const view = { ...viewOf(world), treasuryTokens: null };
    t.match(decide(world.row, view, rules).collect, {
      amounts: { gross: 1000n, fee: 0n, net: 1000n },
      feeOwed: 10n,
    });
    const { collect, update } = decide(world.row, view, rules, { receiverDoubted: true });
    t.equal(collect, undefined);
    t.match(update.state, { dueAt: timeOf(world.now + 60n), setbacks: 0 });
    const second = { wallet: 'second', tokens: receiver('second') };
    const named = { ...world.plan!, destinations: ['merchant', 'treasury', 'second'] };
    const backed = { ...view, plan: named, backupTreasuries: [second] };
    t.match(decide(world.row, backed, rules).collect, {
      amounts: { gross: 1000n, fee: 10n, net: 990n },
      treasury: 'second',
      feeOwed: 0n,
    });
    // With all receivers present, a doubted receiver changes nothing.
    const { collect: certain } = decide(world.row, viewOf(world), rules, { receiverDoubted: true });
    t.match(certain, { treasury: 'treasury', feeOwed: 0n });
    const lost = { ...viewOf(world), merchantTokens: null };
    t.equal(decide(world.row, lost, rules).blocks, 'receiver_account_missing');
    const doubted = decide(world.row, lost, rules, { receiverDoubted: true });
    t.equal(doubted.blocks, undefined);
    t.match(doubted.update.state, { dueAt: timeOf(world.now + 60n) });
  },
);

void t.test(
  'an account whose rent the keeper paid is closed after the paid time, for any end of the subscription',
  async (t) => {
    const world = newWorld(keeper);
    const paidThrough = timeOf(world.now + 100n);
    const ends = [
      { status: 'cancelled', cancelledAt: timeOf(world.now), endReason: 'forced' },
      { status: 'expired', endReason: 'past_due' },
    ] as const;
    for (const end of ends) {
      const row = {
        ...world.row,
        ...end,
        paidThrough,
        nextPaymentDue: null,
        dueAt: timeOf(world.now),
      };
      // The plan is closed, so the program would allow the closing.
      const early = decide(row, { ...viewOf(world), plan: null }, rules);
      t.equal(early.needs, undefined);
      t.same(early.update.state.dueAt, paidThrough);
      t.equal(
        decide(row, { ...viewOf(world), plan: null, now: world.now + 100n }, rules).needs,
        'closing',
      );
      const others = {
        ...viewOf(world),
        plan: null,
        subscription: { ...world.account!, payer: 'wallet' },
      };
      t.equal(
        decide(row, others, rules).update.state.dueAt,
        null,
        'what another paid for is not ours to close',
      );
    }
  },
);

void t.test(
  'a key without SOL does not sign: another key of the plan does, or the payment is postponed',
  (t) => {
    const world = newWorld('wallet');
    const plan = { ...world.plan!, pullers: ['former', keeper] };
    const keys = { ...rules, keepers: ['former', keeper] };
    const without = (...empty: string[]) =>
      decide(
        world.row,
        { ...viewOf(world), plan },
        {
          ...keys,
          isOutOfSol: (key) => empty.includes(key),
        },
      );
    t.equal(without().collect?.keeper, 'former');
    t.equal(without('former').collect?.keeper, keeper);
    const { collect, blocks, update } = without('former', keeper);
    t.equal(collect, undefined);
    t.equal(blocks, undefined);
    t.match(update.state, { status: 'active', setbacks: 1, dueAt: timeOf(world.now + 10n) });
    t.same(update.events, []);
    t.end();
  },
);

void t.test(
  'while an account has more transactions than can be read, no payment is collected and no subscription ends',
  async (t) => {
    const world = newWorld('wallet');
    const pulled = { ...world.account!, amountPulled: terms.amount };
    const row = {
      ...world.row,
      periodAnchor: timeOf(world.account!.periodStart),
      observedSlot: 1n,
    };
    for (const [name, view] of [
      ['pulled from', { ...viewOf(world), subscription: pulled }],
      ['gone', { ...viewOf(world), subscription: null }],
    ] as const) {
      t.equal(decide(row, view, rules).needs, 'pulls', name);
      const { update, collect, alert } = decide(row, view, rules, { tooMany: true });
      t.equal(collect, undefined);
      t.equal(alert, undefined, 'one slow look-up alerts nobody');
      const third = decide({ ...row, failedLookups: 3 }, view, rules, { tooMany: true });
      t.equal(third.collect, undefined);
      t.match(third.alert, { reason: 'pull_not_found' });
      t.match(update.state, { status: 'active', setbacks: 1, dueAt: timeOf(world.now + 10n) });
      t.notOk(update.events.some(({ type }) => type === 'cancel_finalized'));
    }
  },
);

void t.test(
  'a pull missing in all histories delays later periods for eight look-ups and blocks its own period',
  async (t) => {
    const world = newWorld('wallet');
    t.ok(pullOnChain(world, terms.amount, 0n, 'foreign'));
    const decided = (failedLookups: number, now: bigint, lookups: LookupResult) =>
      decide({ ...world.row, failedLookups }, { ...viewOf(world), now }, rules, {
        pulls: [],
        ...lookups,
      });
    const later = world.now + length;
    t.match(decided(8, later, { pulledFinally: true }), {
      collect: { amounts: { gross: terms.amount } },
      alert: { reason: 'pull_not_found' },
    });
    for (const held of [
      decided(7, later, { pulledFinally: true }),
      decided(8, later, {}),
      decided(8, later - 1n, { pulledFinally: true }),
    ]) {
      t.equal(held.collect, undefined);
      t.match(held.alert, { reason: 'pull_not_found' });
    }
    t.match(
      decided(8, later, {}).update.state,
      { failedLookups: 8, dueAt: timeOf(later + 4n) },
      'what is not final is no failure, and soon is',
    );
    t.equal(decided(2, later, { pulledFinally: true }).alert, undefined);
    const first = decide({ ...world.row, setbacks: 8 }, { ...viewOf(world), now: later }, rules, {
      pulls: [],
      pulledFinally: true,
    });
    t.same([first.alert, first.collect], [undefined, undefined], 'other failures are no look-ups');
    t.match(first.update.state, { setbacks: 9, failedLookups: 1 });
    const ended = { ...world.row, status: 'cancelled', cancelledAt: timeOf(world.now) } as const;
    const looked = (failedLookups: number) =>
      decide({ ...ended, failedLookups }, viewOf(world), rules, { pulls: [], pulledFinally: true })
        .update.state;
    t.not(looked(7).dueAt, null);
    t.equal(looked(8).dueAt, null, 'and what has ended is not looked at for ever');
    const unsettled = decide({ ...ended, failedLookups: 8 }, viewOf(world), rules, { pulls: [] })
      .update.state;
    t.match(
      unsettled,
      { failedLookups: 8, dueAt: timeOf(world.now + 4n) },
      'but what is not final is not given up',
    );
  },
);

void t.test(
  'a history too long to read delays later periods for eight look-ups and blocks its own period',
  async (t) => {
    const world = newWorld('wallet');
    t.ok(pullOnChain(world, terms.amount, 0n, 'foreign'));
    const row = {
      ...world.row,
      periodAnchor: timeOf(world.account!.periodStart),
      observedSlot: 1n,
    };
    const tooMany: LookupResult = { tooMany: true, pulledFinally: true };
    const later = world.now + length;
    const decided = (failedLookups: number, now: bigint, lookups = tooMany) =>
      decide({ ...row, failedLookups }, { ...viewOf(world), now }, rules, lookups);
    t.match(decided(8, later), {
      collect: { amounts: { gross: terms.amount } },
      alert: { reason: 'pull_not_found' },
      update: { payments: [] },
    });
    for (const held of [
      decided(7, later),
      decided(8, later - 1n),
      decided(8, later, { tooMany: true }),
    ]) {
      t.equal(held.collect, undefined);
      t.match(held.alert, { reason: 'pull_not_found' });
      t.match(held.update.state, { status: 'active' });
    }

    const gone = (failedLookups: number, lookups: LookupResult) =>
      decide({ ...row, failedLookups }, { ...viewOf(world), subscription: null }, rules, lookups);
    t.match(gone(7, tooMany).update.state, { status: 'active', failedLookups: 8, setbacks: 1 });
    t.match(gone(8, { ...tooMany, closingNotFinal: true }).update.state, { status: 'active' });
    const { alert, update } = gone(8, tooMany);
    t.match(update.state, { status: 'cancelled', dueAt: null });
    t.equal(alert, undefined);
    t.same(
      update.payments.map(({ status }) => status),
      [],
      'nothing is booked that was not read',
    );

    const ended = { ...row, status: 'cancelled', cancelledAt: timeOf(world.now) } as const;
    const looked = (failedLookups: number, view = viewOf(world)) =>
      decide({ ...ended, failedLookups }, view, rules, tooMany).update.state;
    for (const view of [viewOf(world), { ...viewOf(world), subscription: null }]) {
      t.match(looked(7, view), { failedLookups: 8 });
      t.not(looked(7, view).dueAt, null);
      t.equal(looked(8, view).dueAt, null);
    }
  },
);

void t.test(
  "a period that the plan's end cuts short is charged for the part before the end, rounded down",
  async (t) => {
    const world = newWorld('wallet');
    const length = periodSeconds(BigInt(world.row.periodHours));
    const start = world.account!.periodStart;
    const gross = (endTs: bigint) =>
      decide(world.row, { ...viewOf(world), plan: { ...world.plan!, endTs } }, rules).collect
        ?.amounts.gross;
    t.equal(gross(0n), world.row.amount);
    t.equal(gross(start + length), world.row.amount);
    t.equal(gross(start + length / 2n), world.row.amount / 2n);
    t.equal(gross(start + length - 1n), world.row.amount - 1n, 'rounded down');
    const free = decide(
      { ...world.row, amount: 1n },
      {
        ...viewOf(world),
        plan: { ...world.plan!, amount: 1n, endTs: start + length - 1n },
        subscription: { ...world.account!, amount: 1n },
      },
      rules,
    );
    t.equal(free.collect, undefined, 'less than a base unit is nothing');
    t.same(free.update.state.dueAt, timeOf(start + length));
    t.same([free.alert, free.update.events, free.update.state.setbacks], [undefined, [], 0]);
  },
);

void t.test(
  'the rest of a period counts as paid, without payment and event, if it costs less than the minimum',
  async (t) => {
    const world = newWorld('wallet');
    const { periodStart } = world.account!;
    const end = periodStart + length;
    // 49 of 1,000 for the rest of the period.
    const late = timeOf(end - (length * 49n) / 1000n);
    const now = unixSeconds(late);
    const since = timeOf(periodStart);
    const past = { status: 'past_due', pastDueSince: since, failedAttempts: 1 } as const;
    for (const [name, given] of [
      ['after a trial', { trialEndsAt: late, nextPaymentDue: late }],
      ['after a pause', { billedFrom: late }],
      ['past due', { billedFrom: late, ...past }],
    ] as const) {
      const row = { ...world.row, ...given };
      const { update, collect } = decide(row, { ...viewOf(world), now }, rules);
      t.equal(collect, undefined, name);
      t.same(update.payments, [], name);
      t.notOk(update.events.some(({ type }) => type !== 'renewal_upcoming'));
      t.match(update.state, {
        status: 'active',
        pastDueSince: null,
        paidThrough: timeOf(end),
        periodPulled: 0n,
        nextPaymentDue: timeOf(end),
      });
    }
    const row = { ...world.row, billedFrom: timeOf(end - length / 20n) };
    const due = { ...viewOf(world), now: end - length / 20n };
    t.equal(decide(row, due, rules).collect?.amounts.gross, 50n, 'the minimum is collected');

    const endTs = periodStart + (length * 49n) / 1000n;
    const ending = { ...viewOf(world), plan: { ...world.plan!, endTs } };
    const cut = decide(world.row, ending, rules);
    t.equal(cut.collect, undefined, 'before the end of a plan');
    t.match(cut.update.state, { paidThrough: timeOf(endTs), nextPaymentDue: null });
    const after = decide(
      { ...world.row, ...cut.update.state },
      { ...ending, slot: world.slot + 1n, now: endTs + 1n },
      rules,
    );
    t.match(after.update.state, { status: 'expired', endReason: 'plan_ended' });
  },
);

void t.test(
  'in a period without a due payment the first pull counts as its payment, the next as a further pull',
  async (t) => {
    const world = newWorld('wallet');
    const paidThrough = timeOf(world.account!.periodStart + length);
    world.row = { ...world.row, paidThrough, nextPaymentDue: paidThrough };
    for (const [further, told] of [
      [false, ['payment_success']],
      [true, []],
    ] as const) {
      world.slot += 1n;
      t.ok(pullOnChain(world, 40n, 0n, 'keeper'));
      const { update } = decided(world, false);
      t.match(update.payments, [{ source: 'keeper', further }]);
      t.same(
        update.events.map(({ type }) => type),
        told,
      );
      t.same(update.state.paidThrough, paidThrough);
      write(world, update);
    }
    t.equal(world.row.periodPulled, 80n);
  },
);

void t.test(
  'no payment is signed in the last 60 seconds of a period; the next period is due instead',
  async (t) => {
    const world = newWorld('wallet');
    const { periodStart } = world.account!;
    // The first payment was tried in time.
    const invoice = planInvoice(1000n, periodStart, { subscriptionId: world.row.id });
    const end = periodStart + length;
    const row = { ...world.row, invoice };
    const at = (now: bigint) => decide(row, { ...viewOf(world), now }, rules);
    t.equal(at(end - 61n).collect?.periodEnd, end);
    for (const seconds of [60n, 1n]) {
      const { collect, update, alert } = at(end - seconds);
      t.equal(collect, undefined);
      t.match(update.state, { dueAt: timeOf(end), nextPaymentDue: timeOf(end), status: 'active' });
      t.same([alert, update.payments], [undefined, []]);
      t.match(update.events, [{ type: 'renewal_upcoming', extra: { dueAt: timeOf(end) } }]);
    }
    t.equal(at(end).collect?.periodStart, end);
  },
);

void t.test('a payment is signed with the first keeper wallet that the plan names', async (t) => {
  const world = newWorld('wallet');
  const pulled = (pullers: string[], keepers: string[]) =>
    decide(
      world.row,
      { ...viewOf(world), plan: { ...world.plan!, pullers } },
      { ...rules, keepers },
    );
  t.equal(pulled(['old', 'stranger'], ['new', 'old']).collect?.keeper, 'old');
  t.equal(pulled(['old', 'new'], ['new', 'old']).collect?.keeper, 'new');
  t.match(pulled(['old'], ['new']), { blocks: 'not_a_puller' });
  t.equal(pulled(['stranger'], ['other', 'merchant']).collect?.keeper, 'merchant', 'the owner may');
});

void t.test(
  'a paid subscription is read a quarter of a period ahead, announced once, and read again when due',
  async (t) => {
    const world = newWorld('wallet');
    pullOnChain(world, terms.amount, 10n, 'keeper');
    const { periodStart } = world.account!;
    const due = timeOf(periodStart + length);
    const paid = {
      ...world.row,
      paidThrough: due,
      nextPaymentDue: due,
      periodPulled: terms.amount,
    };
    const lookAhead = periodStart + length - length / 4n;
    const at = (now: bigint, row: KeeperSubscription = paid, view: Partial<ChainView> = {}) =>
      decide(row, { ...viewOf(world), now, ...view }, rules).update;
    t.same(at(lookAhead - 1n).events, []);
    t.same(at(lookAhead - 1n).state.dueAt, timeOf(lookAhead));
    const told = at(lookAhead);
    t.same(told.events, [
      {
        type: 'renewal_upcoming',
        extra: { dueAt: due, amount: terms.amount, canPay: true, issue: null },
      },
    ]);
    t.same([told.state.dueAt, told.state.announcedDue], [due, due]);
    t.same(at(lookAhead + 10n, { ...paid, ...told.state }).events, [], 'once');

    const issueWith = (view: Partial<ChainView>) =>
      at(lookAhead, { ...paid, delegationRevokedAt: due }, view).events.map(
        ({ extra }) => extra?.issue,
      );
    const tokens = world.tokens;
    t.same(issueWith({ subscriberTokens: { ...tokens, amount: 999n } }), ['insufficient_balance']);
    t.same(issueWith({ subscriberTokens: null }), ['account_closed']);
    t.same(issueWith({ subscriberTokens: { ...tokens, owner: 'other' } }), [
      'account_owner_changed',
    ]);
    t.same(issueWith({ subscriberTokens: { ...tokens, state: 'frozen' } }), ['account_frozen']);
    t.same(issueWith({ subscriberTokens: { ...tokens, delegate: null } }), ['approval_missing']);
    t.same(issueWith({ subscriberTokens: { ...tokens, delegatedAmount: 999n } }), [
      'approval_missing',
    ]);
    t.same(issueWith({ authority: null }), ['approval_missing']);

    const later = { ...paid, ...told.state, nextPaymentDue: timeOf(periodStart + 2n * length) };
    t.same(
      at(lookAhead + length, {
        ...later,
        paidThrough: later.nextPaymentDue,
      }).events.map(({ extra }) => extra?.dueAt),
      [later.nextPaymentDue],
      'and the next period again',
    );
    const endTs = periodStart + length + length / 2n;
    t.match(
      at(lookAhead, paid, { plan: { ...world.plan!, endTs } }).events,
      [{ extra: { amount: terms.amount / 2n } }],
      'of the part before the plan’s end',
    );
    t.same(at(lookAhead, paid, { plan: { ...world.plan!, endTs: unixSeconds(due) } }).events, []);
    const cancelled = { subscription: { ...world.account!, expiresAt: unixSeconds(due) } };
    t.same(
      at(lookAhead, paid, cancelled).events.map(({ type }) => type),
      ['cancel_requested'],
      'never after a cancellation, though nobody had seen it',
    );
    t.same(at(unixSeconds(due) + 1n).events, [], 'nor when it is due already');
  },
);
