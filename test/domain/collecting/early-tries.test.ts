// How often a top-up makes a payment due before its retry, and the decision about a payment whose
// simulation fails.
import t from 'tap';
import { timeOf } from '../../../src/chain/time.ts';
import type { KeeperSubscription } from '../../../src/db/subscriptions/work.ts';
import { hasChanged } from '../../../src/domain/collecting/account-changed.ts';
import type { ChainView } from '../../../src/domain/collecting/chain-view.ts';
import { decide } from '../../../src/domain/collecting/decide.ts';
import { refuse } from '../../../src/domain/collecting/refusal.ts';
import { applyFailure, updateOf } from '../../../src/domain/collecting/transitions.ts';
import { planInvoice } from '../../fixtures/invoices.ts';
import {
  keeperSubscription,
  planAccount,
  subscriptionAccount,
} from '../../fixtures/keeper-subscription.ts';

const T = 1_800_000_100n;
const HOUR = 3600n;
const DAY = 24n * HOUR;
const rules = {
  keepers: ['keeper'],
  isOutOfSol: () => false,
  pastDueDays: 7,
  feeBps: 100,
  minimumAmount: 1n,
};
const account = subscriptionAccount(T);

/** The accounts of a wallet that can pay, at `now`. */
function funded(now: bigint): ChainView {
  const tokens = (owner: string, amount: bigint) => ({
    ...{ mint: 'mint', owner, amount, delegate: 'sa', delegatedAmount: 2n ** 64n - 1n },
    state: 'initialized' as const,
  });
  return {
    slot: now,
    now,
    subscription: account,
    plan: planAccount(),
    authority: { user: 'wallet', mint: 'mint', payer: 'wallet', bump: 255, initId: 1n },
    authorityAddress: 'sa',
    subscriberTokens: tokens('wallet', 3000n),
    merchantTokens: tokens('merchant', 0n),
    treasuryTokens: tokens('treasury', 0n),
  };
}

/**
 * The row after its payment of the period that starts at `periodStart` failed at `now`, on chain or
 * before it was sent.
 */
function failed(
  row: KeeperSubscription,
  now: bigint,
  { signature, periodStart = T }: { signature: string | null; periodStart?: bigint },
): KeeperSubscription {
  const update = updateOf(row);
  const amounts = { gross: 1000n, fee: 10n, net: 990n };
  const period = {
    periodStart,
    periodEnd: periodStart + DAY,
    nextPeriod: timeOf(periodStart + DAY),
  };
  const invoice = planInvoice(1000n, periodStart);
  const about = { invoice, reason: 'insufficient_funds', now };
  applyFailure(update, { ...about, ...period, amounts, signature }, 7);
  return { ...row, ...update.state };
}

/**
 * Tops up `times` times within a few minutes after `now`; each payment that becomes due fails on
 * chain. Returns their number and the row.
 */
function toggled(row: KeeperSubscription, now: bigint, times: number) {
  let tries = 0;
  for (let round = 1n; round <= BigInt(times); round += 1n) {
    const view = funded(now + round);
    const { collect, update } = decide(row, view, rules);
    t.equal(hasChanged(row, view, rules), collect !== undefined, 'a used-up top-up is no news');
    row = { ...row, ...update.state };
    if (collect === undefined) continue;
    t.ok(collect.isDoubted);
    tries += 1;
    row = failed(row, now + round, { signature: 'failed', periodStart: collect.periodStart });
  }
  return { tries, row };
}

void t.test(
  'after a failure on chain only two top-ups per period cause an early try; the retry stays due',
  async (t) => {
    const first = failed(keeperSubscription(T), T + 1n, { signature: 'failed' });
    t.match(first, { chainFailurePeriod: timeOf(T), earlyTries: 0 });
    const { tries, row } = toggled(first, T + 1n, 50);
    t.equal(tries, 2);
    t.match(row, { earlyTries: 2, status: 'past_due', nextPaymentDue: timeOf(T + 1n + HOUR) });
    const retry = decide(row, funded(T + 1n + HOUR), rules);
    t.match(retry.collect, { isDoubted: true });
    const again = failed(row, T + 1n + HOUR, { signature: 'failed' });
    t.equal(toggled(again, T + 1n + HOUR, 50).tries, 0, 'not two for each retry');
    const next = decide(again, funded(T + DAY), rules);
    t.match(next.collect, { periodStart: T + DAY, isDoubted: false });
    const other = failed({ ...again, ...next.update.state }, T + DAY + 10n, {
      signature: 'failed',
      periodStart: T + DAY,
    });
    t.match(other, { chainFailurePeriod: timeOf(T + DAY), earlyTries: 0 });
    t.equal(toggled(other, T + DAY + 10n, 50).tries, 2, 'two again in the next period');
  },
);

void t.test(
  'without a failure on chain every top-up counts, and no payment is simulated first',
  async (t) => {
    let row = failed(keeperSubscription(T), T + 1n, { signature: null });
    for (let round = 1n; round <= 20n; round += 1n) {
      const { collect, update } = decide(row, funded(T + 1n + round), rules);
      t.match(collect, { isDoubted: false });
      row = failed({ ...row, ...update.state }, T + 1n + round, { signature: null });
    }
    t.match(row, { chainFailurePeriod: null, earlyTries: 0 });
  },
);

/** A past-due row whose payment failed on chain, and the decision to collect it again at `now`. */
function doubted(now: bigint) {
  const row = failed(keeperSubscription(T), T + 1n, { signature: 'failed' });
  const view = funded(now);
  const { update, collect } = decide(row, view, rules);
  return { row, view, update, collect: collect! };
}

void t.test(
  'a payment that a simulation refuses fails at its retry, not when a top-up made it due early',
  async (t) => {
    const early = doubted(T + 60n);
    const reason = 'insufficient_funds';
    const unsent = refuse({ ...early, reason }, early.view, account, rules);
    const retryAt = timeOf(T + 1n + HOUR);
    t.match(unsent.update.state, {
      ...{ status: 'past_due', failedAttempts: 1, setbacks: 0, earlyTries: 1 },
      ...{ nextPaymentDue: retryAt, dueAt: retryAt },
    });
    t.same([unsent.update.events, unsent.update.payments, unsent.collect], [[], [], undefined]);

    const retry = doubted(T + 1n + HOUR);
    const { update } = refuse({ ...retry, reason }, retry.view, account, rules);
    t.match(update.state, { failedAttempts: 2, earlyTries: 0, dueAt: timeOf(T + 1n + 6n * HOUR) });
    t.match(update.payments, [{ status: 'failed', txSignature: null, failureReason: reason }]);
    t.match(update.events, [{ type: 'payment_failed', extra: { attempt: 2 } }]);
  },
);

void t.test(
  'a simulation without an answer is a keeper failure, and the top-up is not counted',
  async (t) => {
    for (const now of [T + 60n, T + 1n + HOUR]) {
      const one = doubted(now);
      const { update, collect } = refuse({ ...one, reason: null }, one.view, account, rules);
      t.equal(collect, undefined);
      t.match(update.state, {
        ...{ status: 'past_due', failedAttempts: 1, setbacks: 1, earlyTries: 0 },
        ...{ nextPaymentDue: one.row.nextPaymentDue, dueAt: timeOf(now + 10n) },
      });
      t.same(update.events, []);
    }
  },
);
