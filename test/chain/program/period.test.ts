import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { pullPeriod } from '../../../src/chain/program/period.ts';

const HOUR = 3600n;
const terms = { amount: 100n, periodHours: 1n };
const sub = (change: Partial<Parameters<typeof pullPeriod>[0]> = {}) => ({
  ...terms,
  planCreatedAt: 5n,
  amountPulled: 0n,
  periodStart: 0n,
  expiresAt: 0n,
  ...change,
});
const planOf = (change: Partial<NonNullable<Parameters<typeof pullPeriod>[1]>> = {}) => ({
  ...terms,
  createdAt: 5n,
  endTs: 0n,
  ...change,
});

/**
 * The program's `validate_recurring_transfer` (0.5.0) line by line with its checked arithmetic, for
 * a pull of `amount`, to judge the closed form. Returns the error code, or the state after the
 * pull.
 */
function program(
  {
    amount,
    periodHours,
    planCreatedAt,
    amountPulled,
    periodStart,
    expiresAt,
  }: ReturnType<typeof sub>,
  plan: ReturnType<typeof planOf> | null,
  pull: bigint,
  now: bigint,
): number | { start: bigint; end: bigint; pulled: bigint } {
  if (plan === null) return 516;
  if (plan.endTs !== 0n && now > plan.endTs) return 501;
  if (
    plan.amount !== amount ||
    plan.periodHours !== periodHours ||
    plan.createdAt !== planCreatedAt
  )
    return 519;
  if (expiresAt !== 0n && now >= expiresAt) return 508;
  const length = periodHours * HOUR;
  let start = periodStart;
  let pulled = amountPulled;
  if (now < start) return 407;
  const since = now - start;
  if (since >= length) {
    const candidate = start + (since / length) * length;
    if (plan.endTs === 0n || candidate < plan.endTs) {
      start = candidate;
      pulled = 0n;
    } else {
      const lastBillable = plan.endTs - 1n;
      if (lastBillable >= start) {
        const lastInBounds = start + ((lastBillable - start) / length) * length;
        if (lastInBounds > start) {
          start = lastInBounds;
          pulled = 0n;
        }
      }
    }
  }
  if (pull > amount - pulled) return 400;
  const end = start + length;
  return {
    start,
    end: plan.endTs !== 0n && end > plan.endTs ? plan.endTs : end,
    pulled: pulled + pull,
  };
}

const VERDICT_CODE = {
  plan_closed: 516,
  plan_ended: 501,
  plan_changed: 519,
  cancelled: 508,
  not_started: 407,
  collected: 400,
} as const;

const seconds = (hours: number) => fc.bigInt({ min: 0n, max: BigInt(hours) * HOUR });
const situation = fc.record({
  amount: fc.bigInt({ min: 1n, max: 1000n }),
  periodHours: fc.bigInt({ min: 1n, max: 5n }),
  pulledPart: fc.bigInt({ min: 0n, max: 1000n }),
  periodStart: seconds(10),
  endTs: fc.option(seconds(40), { nil: 0n, freq: 3 }),
  expiresAt: fc.option(seconds(40), { nil: 0n, freq: 4 }),
  now: seconds(50),
  // Times that coincide with a boundary are the interesting ones.
  snapNow: fc.constantFrom('no', 'end', 'boundary', 'expiry'),
  nudge: fc.constantFrom(-1n, 0n, 1n),
  otherPlan: fc.constantFrom('same', 'same', 'same', 'amount', 'period', 'created', 'closed'),
});

void t.test('pullPeriod predicts at any time which period the program lets a pull collect', (t) => {
  const seen = new Set<string>();
  fc.assert(
    fc.property(situation, (s) => {
      const subscription = sub({
        amount: s.amount,
        periodHours: s.periodHours,
        amountPulled: s.pulledPart % (s.amount + 1n),
        periodStart: s.periodStart,
        expiresAt: s.expiresAt,
      });
      const plan =
        s.otherPlan === 'closed'
          ? null
          : planOf({
              amount: s.amount + (s.otherPlan === 'amount' ? 1n : 0n),
              periodHours: s.periodHours + (s.otherPlan === 'period' ? 1n : 0n),
              createdAt: s.otherPlan === 'created' ? 6n : 5n,
              endTs: s.endTs,
            });
      const snapped = {
        no: s.now,
        end: s.endTs,
        boundary: s.periodStart + 3n * s.periodHours * HOUR,
        expiry: s.expiresAt,
      }[s.snapNow];
      const now = s.snapNow === 'no' ? snapped : snapped + s.nudge;

      const found = pullPeriod(subscription, plan, now);
      seen.add(found.verdict);
      if (found.verdict === 'collectable') {
        assert.ok(found.available > 0n);
        const after = {
          start: found.start,
          end: found.end,
          pulled: found.pulled + found.available,
        };
        assert.deepEqual(program(subscription, plan, found.available, now), after);
        assert.equal(
          program(subscription, plan, found.available + 1n, now),
          400,
          'not one unit more',
        );
      } else {
        assert.equal(found.available, 0n);
        assert.equal(program(subscription, plan, 1n, now), VERDICT_CODE[found.verdict]);
      }
    }),
    { numRuns: 20_000 },
  );
  t.same([...seen].sort(), [
    'cancelled',
    'collectable',
    'collected',
    'not_started',
    'plan_changed',
    'plan_closed',
    'plan_ended',
  ]);
  t.end();
});

void t.test(
  'the next collection time is the first moment at which the next period can be pulled',
  (t) => {
    fc.assert(
      fc.property(situation, (s) => {
        const subscription = sub({
          periodHours: s.periodHours,
          periodStart: s.periodStart,
          expiresAt: s.expiresAt,
        });
        const plan = planOf({ periodHours: s.periodHours, endTs: s.endTs });
        const { verdict, start, next, pulled } = pullPeriod(subscription, plan, s.now);
        if (verdict !== 'collectable') return;
        const paid = {
          ...subscription,
          periodStart: start,
          amountPulled: pulled + (subscription.amount - pulled),
        };
        if (next === null) {
          for (let later = s.now; later < s.now + 12n * HOUR; later += 900n)
            assert.notEqual(pullPeriod(paid, plan, later).verdict, 'collectable');
        } else {
          assert.equal(pullPeriod(paid, plan, next - 1n).verdict, 'collected');
          assert.equal(pullPeriod(paid, plan, next).verdict, 'collectable');
          assert.equal(pullPeriod(paid, plan, next).start, next);
        }
      }),
      { numRuns: 5_000 },
    );
    t.pass();
    t.end();
  },
);

void t.test(
  'after a paid period, the next pull is possible at the period’s end, not a second before',
  (t) => {
    const paid = sub({ amountPulled: 100n });
    const at = (now: bigint) => pullPeriod(paid, planOf(), now);
    t.match(at(HOUR - 1n), {
      verdict: 'collected',
      start: 0n,
      end: HOUR,
      available: 0n,
      next: HOUR,
    });
    t.match(at(HOUR), {
      verdict: 'collectable',
      start: HOUR,
      end: 2n * HOUR,
      pulled: 0n,
      available: 100n,
    });
    t.match(at(HOUR + 1n), { verdict: 'collectable', start: HOUR });
    t.end();
  },
);

void t.test('missed periods can no longer be collected', (t) => {
  t.match(pullPeriod(sub(), planOf(), 3n * HOUR + 7n), {
    verdict: 'collectable',
    start: 3n * HOUR,
    end: 4n * HOUR,
    available: 100n,
  });
  t.end();
});

void t.test('the rest of a partly pulled period can still be collected', (t) => {
  t.match(pullPeriod(sub({ amountPulled: 40n }), planOf(), 10n), {
    verdict: 'collectable',
    pulled: 40n,
    available: 60n,
  });
  t.end();
});

void t.test(
  'the last period of a plan ends with the plan, and no further period begins at that end',
  (t) => {
    // The program's own tests: catch_up_at_exact_expiry_boundary_succeeds,
    // fully_used_final_period_..., boundary_before_expiry_...
    const plan = planOf({ endTs: 3n * HOUR });
    t.match(pullPeriod(sub({ amountPulled: 100n }), plan, 3n * HOUR), {
      verdict: 'collectable',
      start: 2n * HOUR,
      end: 3n * HOUR,
      next: null,
    });
    t.match(pullPeriod(sub({ amountPulled: 100n, periodStart: 2n * HOUR }), plan, 3n * HOUR), {
      verdict: 'collected',
      start: 2n * HOUR,
    });
    t.match(pullPeriod(sub(), plan, 3n * HOUR + 1n), { verdict: 'plan_ended', available: 0n });
    t.match(pullPeriod(sub(), planOf({ endTs: HOUR + 60n }), HOUR + 5n), {
      verdict: 'collectable',
      start: HOUR,
      end: HOUR + 60n,
      next: null,
    });
    t.end();
  },
);

void t.test(
  'a cancelled subscription can be collected until it expires, and never at or after that',
  (t) => {
    const cancelled = sub({ expiresAt: HOUR });
    t.match(pullPeriod(cancelled, planOf(), HOUR - 1n), { verdict: 'collectable', next: null });
    t.match(pullPeriod(cancelled, planOf(), HOUR), {
      verdict: 'cancelled',
      available: 0n,
      next: null,
    });
    t.end();
  },
);

void t.test(
  'the end of a plan created anew at the same address does not shorten a subscription’s period',
  (t) => {
    const recreated = planOf({ createdAt: 6n, endTs: HOUR / 2n });
    t.match(pullPeriod(sub(), recreated, 10n), {
      verdict: 'plan_changed',
      start: 0n,
      end: HOUR,
      next: null,
    });
    t.end();
  },
);

void t.test('a plan that ended before the period began does not move the period', (t) => {
  const later = sub({ periodStart: 10n * HOUR });
  t.match(pullPeriod(later, planOf({ endTs: HOUR }), 20n * HOUR), {
    verdict: 'plan_ended',
    start: 10n * HOUR,
  });
  t.end();
});
