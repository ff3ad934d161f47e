// Change of plan in all directions: no base unit is lost or made, a credit is used once, and no
// time is charged twice. The rules are the real ones; the books and the chain are a model.
import fc from 'fast-check';
import t from 'tap';
import type { SubscriptionAccount } from '../../../src/chain/program/layouts.ts';
import { pullPeriod } from '../../../src/chain/program/period.ts';
import { timeOf, unixSeconds } from '../../../src/chain/time.ts';
import type { KeeperSubscription } from '../../../src/db/subscriptions/work.ts';
import type { ChainView, Pull } from '../../../src/domain/collecting/chain-view.ts';
import { decide } from '../../../src/domain/collecting/decide.ts';
import { applyPayment } from '../../../src/domain/collecting/paying.ts';
import { startOfNext } from '../../../src/domain/collecting/pulls.ts';
import { updateOf, type SubscriptionUpdate } from '../../../src/domain/collecting/transitions.ts';
import { type Taken, takenFrom, unusedPart } from '../../../src/domain/invoices/credits.ts';
import { creditFor } from '../../../src/domain/invoices/draw-up.ts';
import { scheduleOf } from '../../../src/domain/invoices/schedule.ts';
import { NO_DISCOUNT } from '../../../src/domain/invoices/terms.ts';
import { InvoiceBook } from '../../fixtures/invoices.ts';
import {
  keeperSubscription,
  planAccount,
  START,
  subscriptionAccount,
} from '../../fixtures/keeper-subscription.ts';

const HOUR = 3600n;
const MINIMUM = 50n;
const plans = {
  small: { amount: 1_000n, periodHours: 24 },
  large: { amount: 7_919n, periodHours: 24 },
  long: { amount: 100_003n, periodHours: 240 },
  hourly: { amount: 101n, periodHours: 1 },
} as const;
type PlanName = keyof typeof plans;
const names = Object.keys(plans) as PlanName[];
const rules = {
  keepers: ['keeper'],
  isOutOfSol: () => false,
  pastDueDays: 90,
  feeBps: 100,
  minimumAmount: MINIMUM,
};

type Payment = SubscriptionUpdate['payments'][number] & {
  id: string;
  planName: PlanName;
  refunded: bigint;
  /** A refund whose transfer may still land; 0 for none. */
  pending: bigint;
  credited: bigint | null;
  creditedAt: bigint | null;
};

interface World {
  /** The invoices of each address. */
  books: Record<PlanName, InvoiceBook>;
  now: bigint;
  slot: bigint;
  balance: bigint;
  rows: (KeeperSubscription & { planName: PlanName })[];
  accounts: Partial<Record<PlanName, SubscriptionAccount>>;
  payments: Payment[];
  /** Pulls by plan and start of the on-chain period. */
  pulls: Map<string, bigint>;
  /** Number of turns for which no keeper runs. */
  away: number;
}

/** Writes bigints as text, for JSON. */
const text = (_: string, value: unknown) => (typeof value === 'bigint' ? value.toString() : value);

const spanOf = ({ invoice, periodStart, periodEnd }: Payment) => ({
  coversFrom: invoice?.coversFrom ?? periodStart,
  periodEnd,
});
const planOf = (name: PlanName) => {
  const { amount, periodHours } = plans[name];
  return planAccount({ amount, periodHours: BigInt(periodHours) });
};

function viewOf(world: World, name: PlanName): ChainView {
  const tokens = { mint: 'mint', delegatedAmount: 2n ** 64n - 1n, state: 'initialized' } as const;
  const receiver = { ...tokens, amount: 0n, delegate: null };
  return {
    slot: world.slot,
    now: world.now,
    subscription: world.accounts[name] ?? null,
    plan: planOf(name),
    authority: { user: 'wallet', mint: 'mint', payer: 'wallet', bump: 255, initId: 1n },
    authorityAddress: 'sa',
    subscriberTokens: { ...tokens, owner: 'wallet', amount: world.balance, delegate: 'sa' },
    merchantTokens: { ...receiver, owner: 'merchant' },
    treasuryTokens: { ...receiver, owner: 'treasury' },
  };
}

/** Opens or resumes the account, and registers it as registration.ts does. */
function open(world: World, name: PlanName, changes: Partial<KeeperSubscription> = {}): void {
  const { now } = world;
  const account = world.accounts[name];
  const plan = planOf(name);
  // A live account is registered anew after its registration was ended by force.
  const isLive = account?.expiresAt === 0n;
  const isResumed = account !== undefined && (isLive || account.expiresAt > now);
  const next = isResumed
    ? { ...account, expiresAt: 0n }
    : subscriptionAccount(now, { amount: plan.amount, periodHours: plan.periodHours });
  world.accounts[name] = next;
  const { start } = pullPeriod(next, plan, now);
  const row = keeperSubscription(now, {
    ...plans[name],
    id: `${world.rows.length} ${name}`,
    subscriptionPda: name,
    billedFrom: isResumed && now > start ? timeOf(now) : null,
    ...changes,
  });
  // A registration that was replaced ends when its account is resumed for another one.
  for (const old of world.rows)
    if (old.planName === name && old.status !== 'cancelled') {
      world.books[name].close(old.id, 'ended', now);
      old.status = 'cancelled';
    }
  world.rows.push({ ...row, planName: name });
}

const creditSpentOn = ({ invoice }: Payment): bigint => invoice?.creditApplied ?? 0n;

const isRefunded = (payment: Payment) =>
  creditSpentOn(payment) === 0n && payment.refunded >= payment.amountNet;

/** The customer's credit: what changes made, less what open and paid invoices apply. */
const creditOf = ({ payments, books }: World): bigint =>
  payments.reduce((sum, { credited }) => sum + (credited ?? 0n), 0n) -
  Object.values(books)
    .flatMap(({ all }) => all)
    .filter(({ state }) => state === 'open' || state === 'paid')
    .reduce((sum, { creditApplied }) => sum + creditApplied, 0n);

/** A row as the keeper reads it. */
const readRow = (world: World, row: World['rows'][number]): World['rows'][number] => ({
  ...row,
  credit: creditOf(world),
  invoice: world.books[row.planName].unpaid(row.id),
  discountPeriods: world.books[row.planName].periodsLeft(row),
});

const copyOf = ({ books, ...world }: World): World => ({
  ...structuredClone(world),
  books: Object.fromEntries(
    names.map((name) => [name, books[name].copy()]),
  ) as unknown as World['books'],
});

/** The on-chain payments of the running period, as the books have them. */
function known(world: World, name: PlanName) {
  const account = world.accounts[name];
  const paid = world.payments.filter(
    (one) =>
      one.planName === name &&
      one.source === 'keeper' &&
      unixSeconds(one.periodStart) === account?.periodStart,
  );
  return paid.map((one) => ({
    signature: one.txSignature ?? '',
    at: unixSeconds(one.occurredAt),
    periodStart: unixSeconds(one.periodStart),
    periodEnd: unixSeconds(one.periodEnd),
    gross: one.amountGross,
    fee: one.platformFee,
    net: one.amountNet,
    source: 'keeper' as const,
    recorded: true,
    isPeriodPaid: true,
    isRefunded: isRefunded(one),
    isCredited: one.credited !== null,
  }));
}

function write(world: World, index: number, update: SubscriptionUpdate): void {
  const { id: owner, planName } = world.rows[index]!;
  world.rows[index] = { ...world.rows[index]!, ...update.state };
  const stored = world.books[planName].write(owner, update.invoices);
  for (const payment of update.payments) {
    if (payment.status === 'failed') continue;
    const id = `${world.payments.length}`;
    const fresh = { refunded: 0n, pending: 0n, credited: null, creditedAt: null };
    const invoice = payment.invoice && stored(payment.invoice);
    world.payments.push({ ...payment, invoice, id, planName, ...fresh });
  }
}

/** One turn of the keeper for the live rows. */
function collect(world: World): void {
  for (const [index, stored] of world.rows.entries()) {
    const row = readRow(world, stored);
    if (row.status !== 'active' && row.status !== 'past_due') continue;
    const name = row.planName;
    const account = world.accounts[name]!;
    const view = viewOf(world, name);
    let decision = decide(row, view, rules);
    if (decision.needs === 'pulls')
      decision = decide(row, view, rules, { pulls: known(world, name), pulledFinally: true });
    if (decision.needs !== undefined) throw new Error(`needs ${decision.needs}`);
    write(world, index, decision.update);
    const { collect: wanted } = decision;
    if (wanted === undefined) continue;
    const { gross, fee, net } = wanted.amounts;
    const { periodStart, periodEnd, invoice } = wanted;
    const key = `${name} ${periodStart}`;
    if (world.pulls.has(key)) throw new Error('charged twice in one on-chain period');
    world.pulls.set(key, gross);
    if (gross > account.amount) throw new Error('more than the plan allows');
    if (gross < MINIMUM) throw new Error('less than the minimum');
    world.balance -= gross;
    world.accounts[name] = { ...account, periodStart, amountPulled: gross };
    const signature = `${world.pulls.size}`;
    const pull: Pull = {
      ...{ signature, at: world.now, periodStart, periodEnd, gross, fee, net, invoice },
      source: 'keeper',
    };
    const update = updateOf(readRow(world, world.rows[index]!));
    const period = pullPeriod(world.accounts[name], planOf(name), world.now);
    applyPayment(update, pull, startOfNext(period));
    write(world, index, update);
  }
}

/** Ends the live registration by force and registers its account anew, as plan-credit.ts does. */
function registerAnew(world: World): void {
  const old = world.rows.at(-1)!;
  const { planName, paidThrough } = old;
  if (old.status === 'expired' || world.accounts[planName]?.expiresAt !== 0n) return;
  const now = timeOf(world.now);
  const own = world.payments.filter((one) => one.planName === planName && one.periodEnd > now);
  const isPaidByCredit = own.some(
    ({ source, credited, periodEnd }) =>
      source === 'credit' && credited === null && periodEnd.getTime() === paidThrough?.getTime(),
  );
  const startsAt = old.startsAt !== null && old.startsAt > now ? old.startsAt : null;
  const isCredited = paidThrough === null && own.some(({ credited }) => credited !== null);
  world.books[planName].close(old.id, 'ended', world.now);
  Object.assign(old, { status: 'cancelled', nextPaymentDue: null });
  open(world, planName, {
    startsAt,
    replaces: startsAt !== null || isCredited ? old.replaces : null,
    paidThrough: isPaidByCredit ? paidThrough : null,
    periodPulled: isPaidByCredit ? old.periodPulled : 0n,
    nextPaymentDue: startsAt ?? (isPaidByCredit ? paidThrough : now),
  });
}

/**
 * Lands the transaction of a change, and registers it as plan-credit.ts does. Returns what was
 * taken over, with the world before. Undefined if the change is refused.
 */
function change(world: World, to: PlanName, when: 'now' | 'period_end') {
  const { now } = world;
  const index = world.rows.findLastIndex(
    ({ status, replacedBy }) =>
      replacedBy === null && (status === 'active' || status === 'past_due'),
  );
  const old = world.rows[index];
  if (old === undefined || old.planName === to) return undefined;
  const account = world.accounts[to];
  if (account?.expiresAt === 0n) throw new Error('two live accounts');
  const own = world.accounts[old.planName]!;
  const period = pullPeriod(own, planOf(old.planName), now);
  const before = copyOf(world);
  const { books } = world;
  const reserved = books[old.planName].unpaid(old.id);
  const credit = creditOf(world) + (reserved?.state === 'open' ? reserved.creditApplied : 0n);
  const chain = [{ ...old, credit }];
  while ((chain.at(-1)!.startsAt ?? timeOf(0n)) > timeOf(now)) {
    const earlier = world.rows.find(({ id }) => id === chain.at(-1)!.replaces);
    if (earlier === undefined) break;
    chain.push(earlier);
  }
  const paid = new Map(
    chain.map((row) => [
      row.id,
      world.payments
        .filter(
          (one) =>
            one.planName === row.planName &&
            one.credited === null &&
            one.periodEnd > timeOf(now) &&
            (row.refundedThrough === null || one.periodEnd > row.refundedThrough),
        )
        .map((one) => ({
          ...{ ...one, ...spanOf(one), isRefundPending: one.pending > 0n },
          ...{ creditSpent: creditSpentOn(one), planTotal: 2n ** 60n, planAmount: row.amount },
        })),
    ]),
  );
  const taken = takenFrom(chain, paid, { when, at: now });
  if (taken === undefined) return undefined;
  books[old.planName].close(old.id, 'ended', now);
  world.accounts[old.planName] = {
    ...own,
    expiresAt: period.start + BigInt(old.periodHours) * HOUR,
  };
  for (const { id, amount } of taken.parts) {
    const payment = world.payments.find((one) => one.id === id)!;
    // The part of a payment that was neither used nor refunded is credit. A refund that was only
    // asked for does not count.
    const { amountGross, amountNet, refunded, periodEnd } = payment;
    const [from, end] = [unixSeconds(spanOf(payment).coversFrom), unixSeconds(periodEnd)];
    const cash = amountNet > 0n && refunded >= amountNet ? 0n : amountGross - refunded;
    const value = cash + creditSpentOn(payment);
    const unused = (value * (end - (now < from ? from : now))) / (end - from);
    if (amount !== unused) throw new Error(`credited ${amount}, not ${unused}`);
    Object.assign(payment, { credited: amount, creditedAt: now });
  }
  open(world, to, {
    startsAt: taken.startsAt,
    replaces: old.id,
    nextPaymentDue: taken.startsAt ?? timeOf(now),
  });
  const by = world.rows.at(-1)!.id;
  const { endsAt: replacedAt } = taken;
  const requested = { cancelRequestedAt: timeOf(now), cancelRequestedBy: 'subscriber' } as const;
  Object.assign(old, {
    replacedBy: by,
    replacedAt,
    nextPaymentDue: null,
    ...requested,
  });
  return { taken, before };
}

function check(world: World): void {
  const sum = (list: bigint[]) => list.reduce((total, one) => total + one, 0n);
  const spent = sum(world.payments.map(creditSpentOn));
  const paid = Object.values(world.books).flatMap(({ all }) => all);
  const applied = paid.map((one) => (one.state === 'paid' ? one.creditApplied : 0n));
  if (spent !== sum(applied)) throw new Error(`${spent} spent, ${sum(applied)} applied`);
  if (creditOf(world) < 0n) throw new Error('more credit spent than made');
  for (const payment of world.payments)
    if (payment.refunded + (payment.credited ?? 0n) > payment.amountGross + creditSpentOn(payment))
      throw new Error('more given back than paid');
  // Every second of the wallet's time is paid at most once, and not by what was refunded in full.
  const spans = world.payments
    .filter((one) => !isRefunded(one))
    .map((one) => ({
      from: unixSeconds(spanOf(one).coversFrom),
      end: one.creditedAt ?? unixSeconds(one.periodEnd),
    }))
    .filter(({ from, end }) => from < end)
    .sort((a, b) => Number(a.from - b.from));
  for (const [index, { from }] of spans.entries())
    if (index > 0 && from < spans[index - 1]!.end) throw new Error('two payments for one time');
}

type Act =
  | { readonly act: 'change'; readonly to: PlanName; readonly when: 'now' | 'period_end' }
  | { readonly act: 'pass'; readonly seconds: number }
  | { readonly act: 'refund'; readonly place: number; readonly share: number }
  | { readonly act: 'transfer'; readonly isSent: boolean }
  | { readonly act: 'discount'; readonly percent: number; readonly periods: number | null }
  | { readonly act: 'balance'; readonly amount: number }
  | { readonly act: 'anew' }
  | { readonly act: 'away'; readonly turns: number };

const acts: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      act: fc.constant('change' as const),
      to: fc.constantFrom(...names),
      when: fc.constantFrom('now' as const, 'now' as const, 'period_end' as const),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      act: fc.constant('pass' as const),
      seconds: fc.oneof(
        fc.integer({ min: 1, max: 90_000 }),
        fc.integer({ min: 1, max: 120 }),
        fc.integer({ min: 90_000, max: 900_000 }),
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant('refund' as const),
      place: fc.nat(3),
      share: fc.constantFrom(1, 1, 2, 3),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ act: fc.constant('transfer' as const), isSent: fc.boolean() }),
  },
  fc.record({
    act: fc.constant('discount' as const),
    percent: fc.constantFrom(0, 25, 40),
    periods: fc.constantFrom(null, 1, 2),
  }),
  fc.record({ act: fc.constant('balance' as const), amount: fc.constantFrom(0, 500, 1_000_000) }),
);

/** Acts after which no keeper has read the live registration. */
const unread: fc.Arbitrary<Act> = fc.oneof(
  fc.record({ act: fc.constant('anew' as const) }),
  fc.record({ act: fc.constant('away' as const), turns: fc.integer({ min: 1, max: 4 }) }),
);

function perform(world: World, act: Act): void {
  const live = world.rows.at(-1)!;
  switch (act.act) {
    case 'change':
      world.now += 1n;
      change(world, act.to, act.when);
      break;
    case 'pass':
      world.now += BigInt(act.seconds);
      break;
    case 'balance':
      world.balance = BigInt(act.amount);
      break;
    case 'discount':
      live.discountPercent = act.percent === 0 ? null : act.percent;
      live.discountId = `discount ${world.slot}`;
      if (live.status === 'past_due')
        world.books[live.planName].close(live.id, 'replaced', world.now);
      live.discountPeriods = act.percent === 0 ? null : act.periods;
      break;
    case 'refund': {
      const payment = world.payments.at(-1 - act.place);
      if (payment === undefined) break;
      const given = payment.refunded + payment.pending + (payment.credited ?? 0n);
      const rest = payment.amountNet - given;
      if (rest > 0n) payment.pending += rest / BigInt(act.share);
      break;
    }
    case 'anew':
      world.now += 1n;
      registerAnew(world);
      break;
    case 'away':
      world.away = act.turns + 1;
      break;
    case 'transfer':
      // The merchant has sent the transfers of all pending refunds, or has declined them.
      for (const payment of world.payments) {
        if (act.isSent) payment.refunded += payment.pending;
        payment.pending = 0n;
      }
  }
  world.slot += 1n;
}

const worldOf = (trialHours: number): World => {
  const now = START + 10n;
  const trialEndsAt = trialHours === 0 ? null : timeOf(now + BigInt(trialHours) * HOUR);
  const world: World = {
    ...{ now, slot: 10n, balance: 10_000_000n, rows: [], accounts: {}, payments: [] },
    books: {
      ...{ small: new InvoiceBook(), large: new InvoiceBook() },
      ...{ long: new InvoiceBook(), hourly: new InvoiceBook() },
    },
    pulls: new Map(),
    away: 0,
  };
  open(world, 'small', { trialEndsAt });
  return world;
};

const refundAll = { act: 'refund', place: 0, share: 1 } as const;
const sent = { act: 'transfer', isSent: true } as const;
const toLong = { act: 'change', to: 'long', when: 'now' } as const;
const toSmall = { ...toLong, to: 'small' } as const;

void t.test(
  'property: credits add up over upgrades, downgrades, trials, debts, discounts and refunds',
  (t) => {
    fc.assert(
      fc.property(
        fc.constantFrom(0, 7, 30),
        fc.array(fc.oneof({ weight: 4, arbitrary: acts }, unread), { minLength: 1, maxLength: 24 }),
        (trialHours, list) => {
          const world = worldOf(trialHours);
          collect(world);
          for (const act of list) {
            perform(world, act);
            check(world);
            if (world.away > 0) world.away -= 1;
            if (world.away > 0) continue;
            collect(world);
            collect(world);
            check(world);
          }
        },
      ),
      {
        numRuns: 300,
        examples: [
          [0, [refundAll, toLong, sent]],
          [0, [{ act: 'away', turns: 2 }, { act: 'anew' }, toLong]],
          [0, [refundAll, toLong, { ...sent, isSent: false }, toLong]],
          [0, [{ act: 'pass', seconds: 3600 }, toLong, refundAll, sent, toSmall]],
        ],
      },
    );
    t.end();
  },
);

/** Returns what the service shows before a change, as change.ts computes it. */
function shown(world: World, to: PlanName, when: 'now' | 'period_end', taken: Taken) {
  const account = world.accounts[to];
  const price = { ...plans[to], trialHours: null, planEndsAt: null, ...NO_DISCOUNT };
  const { startsAt, credit } = taken;
  if (account === undefined || account.expiresAt <= world.now)
    return scheduleOf(price, timeOf(world.now), MINIMUM, { startsAt, credit });
  const period = pullPeriod(account, planOf(to), world.now);
  const paid = world.payments.filter(
    (one) =>
      one.planName === to &&
      one.source === 'keeper' &&
      unixSeconds(one.periodStart) === period.start,
  );
  const isCredited = paid.some(
    ({ id, credited }) => credited !== null || taken.parts.some((part) => part.id === id),
  );
  const state =
    period.pulled === 0n ? 'unpaid' : isCredited && !paid.some(isRefunded) ? 'credited' : 'paid';
  const running = { start: timeOf(period.start), state } as const;
  return scheduleOf(price, timeOf(world.now), MINIMUM, { startsAt, credit, running });
}

void t.test(
  'property: the amount shown before a change of plan equals the amount paid, to the base unit',
  (t) => {
    fc.assert(
      fc.property(
        fc.constantFrom(0, 30),
        fc.array(acts, { maxLength: 10 }),
        fc.constantFrom(...names),
        fc.constantFrom('now' as const, 'period_end' as const),
        (trialHours, list, to, when) => {
          const world = worldOf(trialHours);
          collect(world);
          for (const act of list) {
            perform(world, act);
            collect(world);
            collect(world);
          }
          world.balance = 2n ** 60n;
          world.now += 1n;
          const made = change(world, to, when);
          if (made === undefined) return;
          const runs = shown(made.before, to, when, made.taken);
          const payments = runs.flatMap(({ amount, creditSpent, dueAt, times }) =>
            Array.from({ length: Math.min(times ?? 4, 4) }, (_, index) => ({
              ...{ amount, creditSpent },
              at: unixSeconds(dueAt) + BigInt(index * plans[to].periodHours) * HOUR,
            })),
          );
          for (const expected of payments.slice(0, 4)) {
            const from = world.payments.length;
            if (expected.at > world.now) world.now = expected.at;
            world.slot += 1n;
            collect(world);
            const paid = world.payments.slice(from).filter(({ planName }) => planName === to);
            const found = paid.map((one) => [one.amountGross, creditSpentOn(one)]);
            const wanted = [[expected.amount, expected.creditSpent]];
            if (JSON.stringify(found, text) !== JSON.stringify(wanted, text))
              throw new Error(JSON.stringify({ found, wanted }, text));
          }
        },
      ),
      { numRuns: 200 },
    );
    t.end();
  },
);

void t.test(
  'property: the unused part of a payment is counted by seconds, less refunds, up to whole cents',
  (t) => {
    const seconds = fc.bigInt({ min: 1n, max: 31_536_000n });
    const money = fc.bigInt({ min: 0n, max: 2n ** 60n });
    fc.assert(
      fc.property(seconds, seconds, money, money, money, (span, passed, gross, credit, back) => {
        const coversFrom = timeOf(START);
        const periodEnd = timeOf(START + span);
        const paid = {
          amountGross: gross,
          amountNet: gross,
          creditSpent: credit,
          isRefundPending: false,
          coversFrom,
          periodEnd,
          planTotal: gross + credit,
          planAmount: 1n,
        };
        const refunded = back < gross ? back : 0n;
        const unused = unusedPart({ ...paid, refunded }, START + passed);
        const used = gross + credit - refunded - unused;
        t.ok(unused >= 0n && used >= 0n);
        if (passed >= span) t.equal(unused, 0n);
        else t.equal(unused, ((gross + credit - refunded) * (span - passed)) / span);
        const cents = unusedPart({ ...paid, refunded, planAmount: 10_000n }, START + passed);
        const value = gross + credit - refunded;
        t.ok(cents >= unused && cents <= value && cents - unused < 10_001n);
        t.ok(cents === value || cents % 10_000n === 0n);
        return true;
      }),
      { numRuns: 200 },
    );
    const whole = {
      ...{ amountGross: 100n, amountNet: 99n, creditSpent: 0n, refunded: 99n },
      isRefundPending: false,
    };
    const time = {
      ...{ coversFrom: timeOf(START), periodEnd: timeOf(START + 10n) },
      ...{ planTotal: 1_000n, planAmount: 1n },
    };
    t.equal(unusedPart({ ...whole, ...time }, START + 5n), 0n, 'refunded in full');
    const mixed = { ...time, amountGross: 100n, amountNet: 99n, creditSpent: 900n };
    t.equal(unusedPart({ ...mixed, refunded: 98n }, START + 5n), 451n, 'the cash in part');
    t.equal(
      unusedPart({ ...mixed, refunded: 99n }, START + 5n),
      450n,
      'a refund leaves the credit',
    );
    const above = { ...time, amountGross: 100n, amountNet: 99n, creditSpent: 0n, refunded: 0n };
    t.equal(unusedPart({ ...above, planTotal: 80n }, START + 5n), 40n, 'a pull above the price');
    t.end();
  },
);

void t.test('property: a credit leaves either nothing or at least the minimum to collect', (t) => {
  const money = fc.bigInt({ min: 0n, max: 10_000n });
  fc.assert(
    fc.property(money, money, fc.bigInt({ min: 0n, max: 200n }), (credit, due, minimum) => {
      const spent = creditFor(credit, due, minimum);
      const rest = due - spent;
      t.ok(spent >= 0n && spent <= credit && rest >= 0n);
      t.ok(rest === 0n || rest >= minimum || rest === due);
      return true;
    }),
  );
  t.end();
});
