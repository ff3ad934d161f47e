// 24 periods of a customer at random: trial, discounts, pauses, cancellations, poverty and top-ups, refunds, another price by another plan. A model beside
// it knows what each payment has to be and until when access was promised.
import fc from 'fast-check';
import t from 'tap';
import type { SubscriptionAccount } from '../../src/chain/layouts.ts';
import { periodSeconds, pullPeriod } from '../../src/chain/period.ts';
import { timeOf, unixSeconds } from '../../src/chain/time.ts';
import type { HeldSubscription } from '../../src/db/subscriptions.ts';
import { accessUntil } from '../../src/domain/access.ts';
import type { ChainView, Pull } from '../../src/domain/chain-view.ts';
import { decide } from '../../src/domain/decide.ts';
import { nextAfter } from '../../src/domain/pulls.ts';
import { applyPayment, draftOf } from '../../src/domain/transitions.ts';

const START = 1_800_000_000n;
const HOUR = 3600n;
const PERIODS = 24n;
const rules = { keepers: ['keeper'], pastDueDays: 7, feeBps: 137 };

interface Wallet {
  now: bigint;
  usdc: bigint;
  approved: boolean;
  hadTrial: boolean;
}

/** One subscription: what the service has, the chain, and the model. */
interface Life {
  row: HeldSubscription;
  account: SubscriptionAccount;
  graceHours: number | null;
  pulls: Pull[];
  refunded: bigint;
  discount: { percent: bigint; off: bigint; left: number | null } | null;
  unpausedAt: bigint | null;
}

interface Terms {
  amount: bigint;
  periodHours: number;
  trialHours: number;
  graceHours: number | null;
}

function open(wallet: Wallet, { amount, periodHours, trialHours, graceHours }: Terms): Life {
  const { now } = wallet;
  const gets = trialHours > 0 && !wallet.hadTrial;
  wallet.hadTrial ||= gets;
  const trialEndsAt = gets ? timeOf(now + BigInt(trialHours) * HOUR) : null;
  const hours = BigInt(periodHours);
  return {
    graceHours,
    pulls: [],
    refunded: 0n,
    discount: null,
    unpausedAt: null,
    account: {
      amount,
      periodHours: hours,
      bump: 255,
      subscriber: 'wallet',
      plan: 'plan',
      payer: 'wallet',
      initId: 1n,
      planCreatedAt: START,
      amountPulled: 0n,
      periodStart: now,
      expiresAt: 0n,
    },
    row: {
      id: 'subscription',
      appId: 'app',
      planId: 'plan-record',
      subscriptionPda: 'pda',
      subscriberWallet: 'wallet',
      amount,
      periodHours,
      planPda: 'plan',
      trialEndsAt,
      discountPercent: null,
      discountAmount: null,
      discountPeriods: null,
      pausedAt: null,
      unpausedAt: null,
      planCreatedAt: timeOf(START),
      merchantWallet: 'merchant',
      mint: 'mint',
      treasury: 'treasury',
      feeBps: null,
      retryHours: null,
      pastDueDays: null,
      notices: 0,
      isSuperseded: false,
      ageSeconds: 1000,
      status: 'active',
      paidThrough: null,
      nextPaymentDue: trialEndsAt ?? timeOf(now),
      announcedDue: null,
      cancelRequestedAt: null,
      cancelRequestedBy: null,
      cancelledAt: null,
      pastDueSince: null,
      failedAttempts: 0,
      delegationRevokedAt: null,
      endReason: null,
      dueAt: timeOf(now),
      periodAnchor: null,
      observedSlot: 0n,
      periodPulled: 0n,
      setbacks: 0,
      failedPacks: 0,
    },
  };
}

const isLive = ({ row }: Life) => row.status === 'active' || row.status === 'past_due';

const planOf = ({ row, account }: Life): NonNullable<ChainView['plan']> => ({
  amount: row.amount,
  periodHours: account.periodHours,
  owner: 'merchant',
  bump: 255,
  status: 'active',
  planId: 1n,
  mint: 'mint',
  createdAt: START,
  endTs: 0n,
  destinations: ['merchant', 'treasury'],
  pullers: ['keeper'],
  metadataUri: '',
});

function viewOf(wallet: Wallet, life: Life): ChainView {
  const tokens = (owner: string, amount: bigint, delegate: string | null) =>
    ({
      mint: 'mint',
      owner,
      amount,
      delegate,
      delegatedAmount: delegate === null ? 0n : 2n ** 64n - 1n,
      state: 'initialized',
    }) as const;
  return {
    slot: wallet.now,
    now: wallet.now,
    subscription: life.account,
    plan: planOf(life),
    authority: { user: 'wallet', mint: 'mint', payer: 'wallet', bump: 255, initId: 1n },
    authorityAddress: 'sa',
    subscriberTokens: tokens('wallet', wallet.usdc, wallet.approved ? 'sa' : null),
    merchantTokens: tokens('merchant', 0n, null),
    treasuryTokens: tokens('treasury', 0n, null),
  };
}

/** What the model says that this period costs now. */
function expected({ row, discount, unpausedAt }: Life, start: bigint, end: bigint): bigint {
  const isOff = discount !== null && discount.left !== 0;
  const price = isOff
    ? ((row.amount - discount.off) * (100n - discount.percent)) / 100n
    : row.amount;
  const trial = row.trialEndsAt === null ? start : unixSeconds(row.trialEndsAt);
  const from = [trial, unpausedAt ?? start].reduce((last, at) => (at > last ? at : last), start);
  return (price * (end - from)) / periodSeconds(BigInt(row.periodHours));
}

/** The keeper looks, and what it collects lands at once. */
function turn(wallet: Wallet, life: Life): void {
  const decision = decide(life.row, viewOf(wallet, life), rules);
  if (decision.needs !== undefined || decision.alert !== undefined)
    throw new Error(`it came to ${decision.needs ?? decision.alert?.reason ?? ''}`);
  life.row = { ...life.row, ...decision.draft.state };
  if (decision.collect === undefined) return;
  const { amounts, periodStart, periodEnd } = decision.collect;
  const due = expected(life, periodStart, periodEnd);
  const fee = (due * BigInt(rules.feeBps)) / 10_000n;
  if (amounts.gross !== due) throw new Error(`collects ${amounts.gross}, not ${due}`);
  if (amounts.fee !== fee || amounts.net !== due - fee) throw new Error('not its fee');
  const period = pullPeriod(life.account, planOf(life), wallet.now);
  if (period.start !== periodStart || period.pulled + due > life.row.amount)
    throw new Error('above the ceiling');
  life.account = { ...life.account, periodStart, amountPulled: period.pulled + due };
  wallet.usdc -= due;
  const { discount } = life;
  if (discount !== null && discount.left !== null && discount.left > 0) discount.left -= 1;
  const pull: Pull = {
    signature: `signature ${life.pulls.length}`,
    at: wallet.now,
    periodStart,
    periodEnd,
    ...amounts,
    source: 'keeper',
  };
  life.pulls.push(pull);
  const draft = draftOf(life.row);
  const now = pullPeriod(life.account, planOf(life), wallet.now);
  applyPayment(draft, pull, nextAfter(periodStart, life.account, now));
  life.row = { ...life.row, ...draft.state };
}

/** Access is what was promised: the paid time, or the trial of one that lives, and the grace while more is due. Never less, never more. */
function checkAccess(wallet: Wallet, life: Life): void {
  const { row, pulls, graceHours } = life;
  const paid = pulls.reduce((last, { periodEnd }) => (periodEnd > last ? periodEnd : last), 0n);
  const trial = isLive(life) && row.trialEndsAt !== null ? unixSeconds(row.trialEndsAt) : 0n;
  const promised = paid > trial ? paid : trial;
  const goesOn = isLive(life) && row.cancelRequestedAt === null && row.pausedAt === null;
  const tenth = (BigInt(row.periodHours) * HOUR) / 10n;
  const grace =
    graceHours !== null ? BigInt(graceHours) * HOUR : tenth > 72n * HOUR ? 72n * HOUR : tenth;
  const until = promised === 0n ? 0n : promised + (goesOn ? grace : 0n);
  const said = accessUntil({ ...row, graceHours });
  const has = said !== null && unixSeconds(said) > wallet.now;
  if (has !== wallet.now < until)
    throw new Error(`access ${has} at ${wallet.now}, promised until ${until}`);
}

type Act = (wallet: Wallet, life: Life, size: number) => void;

const acts: Record<string, Act> = {
  wait: () => undefined,
  topUp: (wallet, life, size) => void (wallet.usdc += life.row.amount * BigInt(size % 4)),
  spend: (wallet) => void (wallet.usdc /= 3n),
  revoke: (wallet) => void (wallet.approved = false),
  approve: (wallet) => void (wallet.approved = true),
  discount(_wallet, life, size) {
    if (!isLive(life)) return;
    const { amount } = life.row;
    const kind = size % 3;
    const left = kind === 2 || size % 2 === 0 ? null : 1 + (size % 4);
    const percent = 1 + (size % 99);
    const off = 1n + (BigInt(size) % (amount - 1n));
    life.discount =
      kind === 2
        ? null
        : { percent: kind === 0 ? BigInt(percent) : 0n, off: kind === 1 ? off : 0n, left };
    life.row = {
      ...life.row,
      discountPercent: kind === 0 ? percent : null,
      discountAmount: kind === 1 ? off : null,
      discountPeriods: left,
      dueAt: life.row.status === 'past_due' ? timeOf(START) : life.row.dueAt,
    };
  },
  pause(wallet, life) {
    const { row } = life;
    if (!isLive(life) || row.cancelRequestedAt !== null || row.pausedAt !== null) return;
    const calm = { status: 'active', pastDueSince: null, failedAttempts: 0 } as const;
    const now = timeOf(wallet.now);
    life.row = { ...row, ...calm, pausedAt: now, nextPaymentDue: null, dueAt: now };
  },
  unpause(wallet, life) {
    const { row } = life;
    if (!isLive(life) || row.cancelRequestedAt !== null || row.pausedAt === null) return;
    const now = timeOf(wallet.now);
    const due = [row.paidThrough, row.trialEndsAt].reduce<Date>(
      (last, at) => (at !== null && at > last ? at : last),
      now,
    );
    life.unpausedAt = wallet.now;
    life.row = { ...row, pausedAt: null, unpausedAt: now, nextPaymentDue: due, dueAt: now };
  },
  cancel(wallet, life, size) {
    if (life.account.expiresAt !== 0n || size % 4 !== 0) return;
    const { start } = pullPeriod(life.account, planOf(life), wallet.now);
    const expiresAt = start + periodSeconds(life.account.periodHours);
    life.account = { ...life.account, expiresAt };
  },
  resume(wallet, life) {
    if (life.account.expiresAt > wallet.now) life.account = { ...life.account, expiresAt: 0n };
  },
  refund(wallet, life, size) {
    const net = life.pulls.reduce((sum, pull) => sum + pull.net, 0n) - life.refunded;
    const amount = net === 0n ? 0n : 1n + (BigInt(size) % net);
    life.refunded += amount;
    wallet.usdc += amount;
  },
};

/** Lets time pass to `until`; the keeper looks whenever something is due. */
function pass(wallet: Wallet, lives: readonly Life[], until: bigint): void {
  for (;;) {
    const due = lives
      .flatMap(({ row }) => (row.dueAt === null ? [] : [unixSeconds(row.dueAt)]))
      .reduce((first, at) => (at < first ? at : first), until);
    if (due > wallet.now) wallet.now = due;
    for (const life of lives) {
      // Before the keeper has looked, too: nothing is taken away at the second of a renewal.
      checkAccess(wallet, life);
      if (life.row.dueAt !== null && unixSeconds(life.row.dueAt) <= wallet.now) turn(wallet, life);
      checkAccess(wallet, life);
    }
    if (wallet.now >= until) return;
  }
}

const terms = fc.record({
  amount: fc.bigInt({ min: 1000n, max: 10_000_019n }),
  periodHours: fc.constantFrom(1, 24, 168, 720),
  trialHours: fc.constantFrom(0, 0, 1, 7, 24, 200),
  graceHours: fc.option(fc.integer({ min: 1, max: 72 })),
});
const step = fc.record({
  act: fc.constantFrom(...Object.keys(acts), 'otherPlan'),
  size: fc.nat(1_000_000),
  /** Thousandths of a period until it happens. */
  after: fc.integer({ min: 0, max: 900 }),
});

void t.test(
  'whatever happens in 24 periods: never above the ceiling, once a period, the fee of what was collected, access as promised and no second longer',
  (t) => {
    const outcomes = new Set<string>();
    fc.assert(
      fc.property(
        terms,
        terms,
        fc.array(step, { maxLength: 60, size: 'max' }),
        (one, two, steps) => {
          const wallet: Wallet = {
            now: START,
            usdc: one.amount * 3n,
            approved: true,
            hadTrial: false,
          };
          const lives = [open(wallet, one)];
          const length = BigInt(one.periodHours) * HOUR;
          const end = START + PERIODS * length;
          for (const { act, size, after } of steps) {
            const at = wallet.now + (length * BigInt(after)) / 1000n;
            if (at >= end) break;
            pass(wallet, lives, at);
            const life = lives.at(-1)!;
            if (act === 'otherPlan') {
              if (lives.length > 1) continue;
              // Another price is another plan: the old subscription ends with what it has paid.
              acts['cancel']!(wallet, life, 0);
              lives.push(open(wallet, two));
            } else acts[act]!(wallet, life, size);
            outcomes.add(act);
            // Streams tell the keeper of what happened on chain.
            for (const one of lives) if (one.row.dueAt !== null) turn(wallet, one);
          }
          pass(wallet, lives, end);
          for (const { row, pulls, refunded } of lives) {
            const periods = new Set(pulls.map(({ periodStart }) => periodStart));
            if (periods.size !== pulls.length) throw new Error('paid twice in a period');
            if (pulls.some(({ gross }) => gross > row.amount)) throw new Error('above the ceiling');
            const net = pulls.reduce((sum, pull) => sum + pull.net, 0n);
            if (refunded > net) throw new Error('refunded more than the net');
            outcomes.add(`${row.status}${row.pausedAt === null ? '' : ' paused'}`);
            if (pulls.length >= 12) outcomes.add('paid often');
            if (row.discountPeriods === 0) outcomes.add('discount used up');
          }
          if (wallet.usdc < 0n) throw new Error('more than the wallet holds');
        },
      ),
      { numRuns: Number(process.env.TEST_RUNS ?? 3000) },
    );
    for (const outcome of ['active', 'active paused', 'cancelled', 'expired', 'paid often'])
      t.ok(outcomes.has(outcome), `it came to ${outcome}`);
    t.ok(outcomes.has('discount used up') && outcomes.has('otherPlan') && outcomes.has('refund'));
    t.end();
  },
);
