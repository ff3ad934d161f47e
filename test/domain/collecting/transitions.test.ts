// Single transitions of the state machine; decide.test.ts checks random sequences of them.
import t from 'tap';
import type { KeeperSubscription } from '../../../src/db/subscriptions/work.ts';
import type { Pull } from '../../../src/domain/collecting/chain-view.ts';
import { applyCover, applyFurther, applyPayment } from '../../../src/domain/collecting/paying.ts';
import {
  applyCancelSeen,
  applyDelegation,
  applyEnd,
  applyFailure,
  applyResume,
  termsOf,
  updateOf,
  type FailedTry,
} from '../../../src/domain/collecting/transitions.ts';
import { planInvoice } from '../../fixtures/invoices.ts';
import { keeperSubscription } from '../../fixtures/keeper-subscription.ts';

const HOUR = 3600n;
const at = (seconds: bigint) => new Date(Number(seconds) * 1000);
const T = 1_800_000_000n;

const row = (changes: Partial<KeeperSubscription> = {}): KeeperSubscription =>
  keeperSubscription(T, { amount: 100n, setbacks: 2, failedPacks: 1, ...changes });

const pull = (start: bigint, changes: Partial<Pull> = {}): Pull => ({
  signature: `from ${start}`,
  at: start + 5n,
  periodStart: start,
  periodEnd: start + 24n * HOUR,
  gross: 100n,
  fee: 1n,
  net: 99n,
  source: 'keeper',
  ...changes,
});

const failure = (changes: Partial<FailedTry> = {}): FailedTry => ({
  invoice: planInvoice(100n, T),
  reason: 'insufficient_funds',
  now: T,
  periodStart: T,
  periodEnd: T + 24n * HOUR,
  nextPeriod: null,
  amounts: { gross: 100n, fee: 1n, net: 99n },
  signature: null,
  ...changes,
});

const pastDue = { status: 'past_due', pastDueSince: at(T), failedAttempts: 3 } as const;

void t.test('an update without a change writes no row', async (t) => {
  const before = row();
  const update = updateOf(before);
  applyPayment(update, pull(T), at(T + 24n * HOUR));
  applyCancelSeen(update, T);
  applyEnd(update, { now: T, endReason: null, accountClosed: true, dueAt: null });
  t.same(before, row());
});

void t.test(
  'a payment pays its period and ends past_due, and its event has the number of attempts',
  async (t) => {
    const update = updateOf(row(pastDue));
    const next = at(T + 24n * HOUR);
    applyPayment(update, pull(T), next);
    t.match(update.state, {
      status: 'active',
      paidThrough: next,
      nextPaymentDue: next,
      dueAt: next,
      pastDueSince: null,
      failedAttempts: 0,
      setbacks: 0,
      failedPacks: 0,
      periodPulled: 100n,
    });
    t.match(update.payments, [
      {
        status: 'succeeded',
        attempt: 4,
        txSignature: `from ${T}`,
        occurredAt: at(T + 5n),
        further: false,
      },
    ]);
    t.match(update.events, [
      { type: 'payment_success', extra: { nextPaymentDue: next, amountGross: 100n } },
    ]);
  },
);

void t.test(
  'a pull of an older period that is found late is recorded with an event and moves no date back',
  async (t) => {
    const paidThrough = at(T + 48n * HOUR);
    const update = updateOf(row({ ...pastDue, paidThrough, periodPulled: 40n }));
    applyPayment(update, pull(T), at(T + 24n * HOUR));
    t.match(update.state, { ...pastDue, paidThrough, periodPulled: 40n });
    t.equal(update.payments.length, 1);
    t.equal(update.events.length, 1);
  },
);

void t.test(
  'a payment that lands after a cancellation or an end is recorded, and does not reactivate the subscription',
  async (t) => {
    const end = at(T + 24n * HOUR);
    const asked = updateOf(
      row({ cancelRequestedAt: at(T), cancelRequestedBy: 'merchant', nextPaymentDue: null }),
    );
    applyPayment(asked, pull(T), at(T + 24n * HOUR));
    t.match(asked.state, { status: 'active', paidThrough: end, nextPaymentDue: null, dueAt: end });
    const ended = updateOf(
      row({ status: 'cancelled', cancelledAt: at(T), nextPaymentDue: null, dueAt: null }),
    );
    applyPayment(ended, pull(T), at(T + 24n * HOUR));
    t.match(ended.state, {
      status: 'cancelled',
      paidThrough: end,
      nextPaymentDue: null,
      dueAt: null,
    });
    t.equal(ended.payments.length, 1);
  },
);

void t.test(
  'a payment whose attempt is lost covers the time from a late try on and uses its discount',
  async (t) => {
    const late = T + 12n * HOUR;
    const discount = { discountId: 'discount', discountPercent: 20, discountPeriods: 2 };
    const terms = { amount: 1_000_000n, ...discount };
    const lost = (changes: Partial<Pull>, credit = 0n) => {
      const update = updateOf(row({ ...terms, credit }));
      // Signed ten seconds before it landed: 800,000 for the twelve hours and ten seconds.
      applyPayment(update, pull(T, { at: late, gross: 400_092n, ...changes }), null);
      const [payment] = update.payments;
      const { discountPeriods, credit: left } = termsOf(update);
      return {
        coversFrom: payment!.invoice!.coversFrom,
        creditSpent: payment!.invoice!.creditApplied,
        discountPeriods,
        left,
      };
    };
    const none = { creditSpent: 0n, left: 0n };
    t.same(lost({}), { coversFrom: at(late), discountPeriods: 1, ...none });
    // What the pull lacks of the price from the try on, not of the whole price, is credit.
    t.same(lost({ gross: 300_000n }, 500_000n), {
      ...{ coversFrom: at(late), discountPeriods: 1, creditSpent: 100_000n, left: 400_000n },
    });
    // A known attempt says what was charged, and the row from when.
    t.match(lost({ invoice: planInvoice(400_092n, T) }), {
      coversFrom: at(T),
      discountPeriods: 2,
      ...none,
    });
    t.match(lost({ at: T + 5n, gross: 800_000n }), { coversFrom: at(T), discountPeriods: 1 });
    t.match(lost({ at: T + 5n, gross: 1_000_000n }), { coversFrom: at(T), discountPeriods: 2 });
  },
);

void t.test('a lost attempt of a period that was tried in time covers the whole period', (t) => {
  const invoice = planInvoice(100n, T, { subscriptionId: 'subscription' });
  const update = updateOf(row({ amount: 100n, invoice }));
  applyPayment(update, pull(T, { at: T + 12n * HOUR }), null);
  t.same(update.payments[0]!.invoice!.coversFrom, at(T));
  t.end();
});

void t.test('the last period of a plan has no next payment', async (t) => {
  const update = updateOf(row());
  applyPayment(update, pull(T, { periodEnd: T + 7n * HOUR }), null);
  t.match(update.state, { nextPaymentDue: null, dueAt: at(T + 7n * HOUR) });
});

void t.test(
  'a period that an earlier registration recorded gets no second event and no second payment',
  async (t) => {
    const covered = updateOf(row());
    applyCover(covered, pull(T), at(T + 24n * HOUR));
    t.match(covered.state, { paidThrough: at(T + 24n * HOUR), periodPulled: 100n });
    t.same([covered.payments, covered.events], [[], []]);
    const further = updateOf(row({ paidThrough: at(T + 24n * HOUR), periodPulled: 10n }));
    const before = structuredClone(further.state);
    applyFurther(further, pull(T, { source: 'foreign', fee: 0n, net: 100n }));
    t.same(further.state, before);
    t.same(further.events, []);
    t.match(further.payments, [
      { status: 'succeeded', further: true, attempt: 1, platformFee: 0n },
    ]);
  },
);

void t.test(
  'a past-due subscription does not end at its last failure while a signed change of plan may land',
  (t) => {
    const last = failure({ now: T + 7n * 24n * HOUR, signature: 'failed on chain' });
    const waiting = updateOf(row({ ...pastDue, isChangeSigned: true }));
    applyFailure(waiting, last, 7);
    t.match(waiting.state, { ...pastDue, endReason: null, dueAt: at(last.now + 10n) });
    t.match(waiting.state, { chainFailurePeriod: at(T) }, 'the next try is simulated');
    t.same([waiting.payments, waiting.events], [[], []]);
    const earlier = updateOf(row({ ...pastDue, isChangeSigned: true }));
    applyFailure(earlier, failure({ now: T + 30n * HOUR }), 7);
    t.match(earlier.state, { status: 'past_due', failedAttempts: 4 }, 'an earlier one counts');
    t.end();
  },
);

void t.test(
  'the first failure sets past_due, further ones keep its start, and the last one expires the subscription',
  async (t) => {
    const first = updateOf(row());
    applyFailure(first, failure(), 7);
    t.match(first.state, {
      status: 'past_due',
      pastDueSince: at(T),
      failedAttempts: 1,
      setbacks: 0,
      nextPaymentDue: at(T + HOUR),
      dueAt: at(T + HOUR),
    });
    t.match(first.events, [
      { type: 'payment_failed', extra: { attempt: 1, final: false, nextAttemptAt: at(T + HOUR) } },
    ]);
    t.notOk('txSignature' in first.events[0]!.extra!);
    const later = updateOf(row({ ...pastDue }));
    applyFailure(later, failure({ now: T + 30n * HOUR, signature: 'failed on chain' }), 7);
    t.match(later.state, { pastDueSince: at(T), failedAttempts: 4 });
    t.match(later.payments, [
      {
        status: 'failed',
        txSignature: 'failed on chain',
        attempt: 4,
        occurredAt: at(T + 30n * HOUR),
      },
    ]);
    t.match(later.events, [{ extra: { txSignature: 'failed on chain' } }]);
    const last = updateOf(row({ ...pastDue }));
    applyFailure(last, failure({ now: T + 7n * 24n * HOUR }), 7);
    t.match(last.state, {
      status: 'expired',
      pastDueSince: null,
      endReason: 'past_due',
      nextPaymentDue: null,
      dueAt: null,
    });
    t.match(last.events, [{ extra: { final: true, nextAttemptAt: null } }]);
  },
);

void t.test('a cancellation clears the next payment; a resume makes it due again', async (t) => {
  const paidThrough = at(T + 24n * HOUR);
  const update = updateOf(row({ paidThrough, nextPaymentDue: paidThrough }));
  applyCancelSeen(update, T);
  t.match(update.state, {
    status: 'active',
    cancelRequestedAt: at(T),
    cancelRequestedBy: 'subscriber',
    nextPaymentDue: null,
    paidThrough,
  });
  applyResume(update, paidThrough);
  t.match(update.state, {
    cancelRequestedAt: null,
    cancelRequestedBy: null,
    nextPaymentDue: paidThrough,
  });
  t.same(
    update.events.map(({ type }) => type),
    ['cancel_requested', 'subscription_resumed'],
  );
});

void t.test(
  'a revocation has one event however often it is read; after a repair a new one has another event',
  async (t) => {
    const update = updateOf(row());
    const see = (obstacle: string | undefined, now: bigint) =>
      applyDelegation(update, obstacle, now);
    see('delegate_replaced', T);
    see('authority_closed', T + 1n);
    t.same(update.state.delegationRevokedAt, at(T));
    t.equal(update.events.length, 1);
    see(undefined, T + 2n);
    t.equal(update.state.delegationRevokedAt, null);
    see('authority_closed', T + 4n);
    t.match(update.events, [
      { extra: { reason: 'delegate_replaced' } },
      { extra: { reason: 'authority_closed' } },
    ]);
    t.same(update.state.delegationRevokedAt, at(T + 4n));
  },
);

void t.test(
  'an end after a cancel request is `cancelled`; an end with the plan is `expired` with its reason',
  async (t) => {
    const asked = updateOf(row({ cancelRequestedAt: at(T), cancelRequestedBy: 'subscriber' }));
    applyEnd(asked, { now: T + 9n, endReason: null, accountClosed: true, dueAt: null });
    t.match(asked.state, {
      status: 'cancelled',
      cancelledAt: at(T + 9n),
      dueAt: null,
      setbacks: 0,
    });
    t.match(asked.events, [
      { type: 'cancel_finalized', extra: { accountClosed: true, cancelledAt: at(T + 9n) } },
    ]);
    const gone = updateOf(row(pastDue));
    applyEnd(gone, {
      now: T + 9n,
      endReason: 'plan_closed',
      accountClosed: false,
      dueAt: at(T + 99n),
    });
    t.match(gone.state, {
      status: 'expired',
      endReason: 'plan_closed',
      cancelledAt: null,
      pastDueSince: null,
      nextPaymentDue: null,
      dueAt: at(T + 99n),
    });
    t.match(gone.events, [{ extra: { endReason: 'plan_closed', accountClosed: false } }]);
  },
);

void t.test('a plan’s own retryHours and pastDueDays replace the defaults', async (t) => {
  const own = { retryHours: [2, 48], pastDueDays: 3 };
  const tried = (now: bigint) => {
    const update = updateOf(row({ ...(now === T ? {} : pastDue), ...own }));
    applyFailure(update, failure({ now }), 7);
    return update.state;
  };
  t.match(tried(T), { status: 'past_due', dueAt: at(T + 2n * HOUR) });
  t.match(tried(T + 2n * HOUR), { dueAt: at(T + 48n * HOUR) });
  t.match(tried(T + 48n * HOUR), { dueAt: at(T + 72n * HOUR) }, 'the last attempt at the expiry');
  t.match(tried(T + 72n * HOUR), { status: 'expired', dueAt: null });
});
