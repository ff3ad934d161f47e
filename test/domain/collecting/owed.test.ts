// canPay counts what the same wallet owes to its other plans.
import fc from 'fast-check';
import t from 'tap';
import type { WalletDue } from '../../../src/db/subscriptions/wallet-dues.ts';
import { owedBefore } from '../../../src/domain/collecting/owed.ts';

const due = new Date('2026-03-01T00:00:00Z');
const one = (changes: Partial<WalletDue> = {}): WalletDue => ({
  id: 'a',
  subscriberWallet: 'wallet',
  mint: 'mint',
  status: 'active',
  amount: 5_000_000n,
  periodHours: 720,
  trialEndsAt: null,
  billedFrom: null,
  startsAt: null,
  credit: 0n,
  periodAnchor: null,
  planEndsAt: null,
  discountPercent: null,
  discountAmount: null,
  discountPeriods: null,
  nextPaymentDue: due,
  ...{ openAmount: null, openUntil: null },
  ...changes,
});

void t.test(
  'the balance covers payments by due time; of two due at once, the older subscription is first',
  (t) => {
    const [a, b] = [one(), one({ id: 'b' })];
    t.equal(owedBefore(a, [a, b]), 0n, 'its own payment does not count');
    t.equal(owedBefore(b, [a, b]), 5_000_000n);
    const earlier = one({ id: 'c', nextPaymentDue: new Date(due.getTime() - 1000) });
    t.equal(owedBefore(a, [a, b, earlier]), 5_000_000n);
    const later = one({ id: '0', nextPaymentDue: new Date(due.getTime() + 1000) });
    t.equal(owedBefore(a, [later]), 0n);
    t.equal(owedBefore(b, [one({ discountPercent: 60 })]), 2_000_000n, 'as discounted');
    const open = { openAmount: 3n, openUntil: new Date(due.getTime() + 1000) };
    t.equal(owedBefore(b, [one(open)]), 3n, 'as its invoice says');
    t.equal(owedBefore(b, [one({ subscriberWallet: 'other' })]), 0n);
    t.equal(owedBefore(b, [one({ mint: 'other' })]), 0n);
    t.equal(owedBefore({ ...a, nextPaymentDue: null }, [b]), 0n);
    t.end();
  },
);

void t.test(
  'in random sets of payments, exactly those that the balance covers in due order can be paid',
  (t) => {
    const payment = fc.record({
      id: fc.uuid(),
      amount: fc.bigInt({ min: 1n, max: 1_000_000n }),
      nextPaymentDue: fc.nat(3).map((hours) => new Date(due.getTime() + hours * 3_600_000)),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(payment, { selector: ({ id }) => id, maxLength: 6 }),
        fc.bigInt({ min: 0n, max: 4_000_000n }),
        (given, balance) => {
          const all = given.map((changes) => one(changes));
          const inOrder = [...all].sort(
            (x, y) =>
              x.nextPaymentDue.getTime() - y.nextPaymentDue.getTime() || (x.id < y.id ? -1 : 1),
          );
          let sum = 0n;
          return inOrder.every((next) => {
            sum += next.amount;
            return balance >= owedBefore(next, all) + next.amount === balance >= sum;
          });
        },
      ),
    );
    t.end();
  },
);
