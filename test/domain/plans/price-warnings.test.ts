// Warnings about prices that look like a misplaced decimal point among the app's other plans.
import t from 'tap';
import { priceWarnings, type Price } from '../../../src/domain/plans/price-warnings.ts';

const plan = (id: string, amount: bigint, periodHours = 730): Price => ({
  id,
  name: id,
  amount,
  periodHours,
});
const codes = (of: Price, others: Price[]) => priceWarnings(of, others).map(({ code }) => code);

void t.test('the only plan of an app gets no warning', (t) => {
  const only = plan('a', 1n);
  t.same(priceWarnings(only, []), []);
  t.same(priceWarnings(only, [only, only]), [], 'not with itself either');
  t.end();
});

void t.test(
  'a price of at most a tenth of the cheapest or ten times the dearest plan gets a warning',
  (t) => {
    const others = [plan('small', 5_000_000n), plan('big', 50_000_000n)];
    t.same(codes(plan('x', 500_000n), others), ['amount_far_below']);
    t.same(codes(plan('x', 500_001n), others), []);
    t.same(codes(plan('x', 499_999_999n), others), []);
    t.same(codes(plan('x', 500_000_000n), others), ['amount_far_above']);
    t.match(
      priceWarnings(plan('x', 100_000n), others)[0]?.message,
      /^0\.10 USDC every 730 hours .*"small" \(5\.00 USDC/,
    );
    t.end();
  },
);

void t.test('the warning for an unusual price compares the prices of plans per hour', (t) => {
  const monthly = plan('monthly', 10_000_000n, 730);
  t.same(codes(plan('yearly', 100_000_000n, 8760), [monthly]), []);
  t.same(codes(plan('yearly', 12_000_000n, 8760), [monthly]), ['amount_far_below']);
  t.same(codes(plan('daily', 10_000_000n, 24), [monthly]), ['amount_far_above']);
  t.end();
});
