// Several payments of one wallet in one batch.
import t from 'tap';
import { timeOf } from '../../../src/chain/time.ts';
import type { ChainView } from '../../../src/domain/collecting/chain-view.ts';
import type { Decision } from '../../../src/domain/collecting/decision.ts';
import { updateOf } from '../../../src/domain/collecting/transitions.ts';
import { withinFunds } from '../../../src/keeper/collect/shared-funds.ts';
import type { InFlightPayment } from '../../../src/keeper/track/in-flight.ts';
import { planInvoice } from '../../fixtures/invoices.ts';
import { keeperSubscription, START } from '../../fixtures/keeper-subscription.ts';

const collected = (id: string, wallet: string, gross: bigint) => {
  const row = keeperSubscription(START, { id, subscriberWallet: wallet });
  const collect = {
    keeper: 'keeper',
    invoice: planInvoice(gross, START),
    replaces: null,
    periodStart: START,
    periodEnd: START + 1n,
    amounts: { gross, fee: 0n, net: gross },
    treasury: 'treasury',
    feeOwed: 0n,
    billedFrom: null,
    isDoubted: false,
  };
  const decision: Decision = { update: updateOf(row), collect };
  return { row, decision };
};

/** Every wallet has `amount`, of which `delegatedAmount` may be pulled. */
const having = (amount: bigint, delegatedAmount = 2n ** 64n - 1n) => {
  const view = { now: START, subscriberTokens: { amount, delegatedAmount } };
  return () => view as unknown as ChainView;
};

const kept = (decided: ReturnType<typeof withinFunds>) =>
  decided.filter(({ decision }) => decision.collect !== undefined).map(({ row }) => row.id);

void t.test(
  'payments of one wallet are collected up to its balance and approval; the rest waits twenty seconds',
  async (t) => {
    const batch = () => [
      collected('a', 'rich', 400n),
      collected('b', 'rich', 700n),
      collected('c', 'rich', 600n),
      collected('d', 'other', 1000n),
    ];
    t.same(kept(withinFunds(batch(), [], having(1700n))), ['a', 'b', 'c', 'd']);
    t.same(kept(withinFunds(batch(), [], having(1000n))), ['a', 'c', 'd']);
    t.same(kept(withinFunds(batch(), [], having(5000n, 1000n))), ['a', 'c', 'd']);
    const [, putOff] = withinFunds(batch(), [], having(1000n));
    t.match(putOff!.decision.update.state, {
      status: 'active',
      setbacks: 0,
      failedAttempts: 0,
      dueAt: timeOf(START + 20n),
    });
    t.same(putOff!.decision.update.events, []);
  },
);

void t.test('payments already signed in the batch count against the balance', async (t) => {
  const { row } = collected('z', 'rich', 700n);
  const signed = [{ row, attempt: { amountGross: 700n } }] as unknown as InFlightPayment[];
  t.same(kept(withinFunds([collected('a', 'rich', 400n)], signed, having(1000n))), []);
  t.same(kept(withinFunds([collected('a', 'rich', 300n)], signed, having(1000n))), ['a']);
});
