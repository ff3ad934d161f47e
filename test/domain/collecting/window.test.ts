// When renewals are collected: at the end of a window, never early, never beyond the period.
import fc from 'fast-check';
import t from 'tap';
import { timeOf, unixSeconds } from '../../../src/chain/time.ts';
import {
  CLOSING_SECONDS,
  collectAt,
  windowEnd,
  windowSeconds,
  type WindowTerms,
} from '../../../src/domain/collecting/window.ts';

const START = new Date('2026-03-01T00:00:01Z');
const DAY = 24;
const at = (seconds: number) => new Date(START.getTime() + seconds * 1000);

const terms = (changes: Partial<WindowTerms> = {}): WindowTerms => ({
  collectionWindow: 900,
  periodHours: 30 * DAY,
  graceHours: null,
  billedFrom: null,
  planEndsAt: null,
  ...changes,
});
const renewal = (changes: Partial<Parameters<typeof collectAt>[1]> = {}) => ({
  status: 'active' as const,
  paidThrough: START,
  nextPaymentDue: START,
  periodAnchor: START,
  ...changes,
});

void t.test('a window is at most a fortieth of the period and a quarter of the grace', (t) => {
  t.equal(windowSeconds(terms()), 900n);
  t.equal(windowSeconds(terms({ periodHours: 1 })), 90n, 'a fortieth of an hour, 90 s');
  t.equal(windowSeconds(terms({ graceHours: 0 })), 0n, 'no grace, no window');
  t.equal(windowSeconds(terms({ collectionWindow: 3600, graceHours: 1 })), 900n);
  t.equal(windowSeconds(terms({ collectionWindow: 0 })), 0n);
  t.end();
});

void t.test('a renewal is collected at the next multiple of the window', (t) => {
  t.same(collectAt(terms(), renewal()), new Date('2026-03-01T00:15:00Z'));
  const sharp = new Date('2026-03-01T00:15:00Z');
  t.same(collectAt(terms(), renewal({ nextPaymentDue: sharp })), sharp, 'due at a multiple');
  t.same(collectAt(terms({ collectionWindow: 0 }), renewal()), START);
  t.end();
});

void t.test('first payments, retries and payments after a pause are collected at once', (t) => {
  t.same(collectAt(terms(), renewal({ paidThrough: null })), START, 'first payment');
  t.same(collectAt(terms(), renewal({ status: 'past_due' })), START, 'retry');
  t.same(collectAt(terms({ billedFrom: START }), renewal()), START, 'unpaused');
  t.same(collectAt(terms({ billedFrom: at(-1) }), renewal()), at(899), 'a renewal after it');
  t.equal(collectAt(terms(), renewal({ nextPaymentDue: null })), null, 'paused');
  t.end();
});

void t.test('a payment whose period or plan ends within the window is collected at once', (t) => {
  const nearEnd = at(30 * DAY * 3600 - 900);
  t.same(collectAt(terms(), renewal({ nextPaymentDue: nearEnd })), nearEnd, 'a trial ended late');
  t.same(collectAt(terms({ planEndsAt: at(950) }), renewal()), START, 'the plan ends');
  t.same(collectAt(terms({ planEndsAt: at(960) }), renewal()), at(899));
  t.end();
});

void t.test(
  'a payment is collected within its window and period and never early, for any phase and grace',
  (t) => {
    const seconds = fc.integer({ min: 0, max: 400 * 86_400 });
    fc.assert(
      fc.property(
        fc.record({
          collectionWindow: fc.integer({ min: 0, max: 86_400 }),
          periodHours: fc.integer({ min: 1, max: 8760 }),
          graceHours: fc.option(fc.integer({ min: 0, max: 8760 })),
          billedFrom: fc.option(seconds.map(at)),
          planEndsAt: fc.option(seconds.map(at)),
        }),
        seconds,
        fc.integer({ min: 0, max: 999 }),
        (one, after, ms) => {
          const due = new Date(at(after).getTime() + ms);
          const state = renewal({ nextPaymentDue: due });
          const collected = collectAt(one, state)!;
          const waited = collected.getTime() - due.getTime();
          const window = Number(windowSeconds(one)) * 1000;
          if (waited < 0 || waited >= Math.max(window, 1) + 1000) throw new Error('not its window');
          if (waited === 0) return;
          const length = BigInt(one.periodHours) * 3600n;
          const phase = (unixSeconds(due) - unixSeconds(START)) % length;
          const rest = length - phase - (unixSeconds(collected) - unixSeconds(due));
          if (rest <= CLOSING_SECONDS) throw new Error('not in its period');
          if (unixSeconds(collected) % BigInt(window / 1000) !== 0n) throw new Error('no multiple');
          if (one.planEndsAt !== null && collected >= one.planEndsAt && due < one.planEndsAt)
            throw new Error('after the end of the plan');
        },
      ),
      { numRuns: 5000 },
    );
    t.same(windowEnd(timeOf(900n), terms()), timeOf(900n));
    t.end();
  },
);
