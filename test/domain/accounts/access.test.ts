// The access rule over random histories of a subscription: paid time, due payments and
// cancellations.
import fc from 'fast-check';
import t from 'tap';
import type { AccessTerms } from '../../../src/db/access.ts';
import { accessUntil, graceMs, judgeAccess } from '../../../src/domain/accounts/access.ts';

const hour = 3_600_000;
const start = Date.UTC(2026, 0, 1);

void t.test(
  'the default grace is a tenth of the period and at most 72 hours; a plan can set its own, or none',
  (t) => {
    t.equal(graceMs({ periodHours: 1, graceHours: null }), hour / 10);
    t.equal(graceMs({ periodHours: 720, graceHours: null }), 72 * hour);
    t.equal(graceMs({ periodHours: 8760, graceHours: null }), 72 * hour);
    t.equal(graceMs({ periodHours: 730, graceHours: 0 }), 0);
    t.equal(graceMs({ periodHours: 1, graceHours: 72 }), 72 * hour);
    t.end();
  },
);

void t.test(
  'a replaced subscription gives access until the other one takes over, and for the grace',
  (t) => {
    const at = (hours: number) => new Date(start + hours * hour);
    const base = { trialEndsAt: null, pausedAt: null, refundedThrough: null, graceHours: 10 };
    const replaced = {
      ...{ ...base, id: 'a', status: 'active', periodHours: 720, nextPaymentDue: null },
      ...{ paidThrough: at(720), cancelRequestedAt: at(100), replacedAt: at(100) },
    };
    t.same(accessUntil(replaced), at(110), 'what was credited gives none');
    t.same(
      accessUntil({ ...replaced, status: 'cancelled' }),
      at(110),
      'the same when it has ended',
    );
    t.same(accessUntil({ ...replaced, replacedAt: at(720) }), at(730), 'at the end of the period');
    t.same(accessUntil({ ...replaced, paidThrough: at(50) }), at(60), 'past due: no longer');
    t.equal(accessUntil({ ...replaced, paidThrough: null }), null);
    const { reason, revalidateAfter } = judgeAccess(
      [replaced],
      new Date(at(99).getTime() + 1800_000),
    );
    t.equal(reason, 'paid');
    t.same(revalidateAfter, at(100), 'asked again when the other one takes over');
    t.equal(judgeAccess([replaced], at(105)).reason, 'grace');
    t.equal(judgeAccess([replaced], at(111)).hasAccess, false);
    t.end();
  },
);

const terms: fc.Arbitrary<AccessTerms> = fc.record({
  status: fc.constantFrom('active', 'past_due', 'cancelled', 'expired'),
  paidThrough: fc.option(
    fc.integer({ min: 0, max: 10_000 }).map((h) => new Date(start + h * hour)),
  ),
  nextPaymentDue: fc.option(
    fc.integer({ min: 0, max: 10_000 }).map((h) => new Date(start + h * hour)),
  ),
  cancelRequestedAt: fc.option(fc.constant(new Date(start))),
  trialEndsAt: fc.option(
    fc.integer({ min: 0, max: 10_000 }).map((h) => new Date(start + h * hour)),
  ),
  pausedAt: fc.option(fc.constant(new Date(start))),
  replacedAt: fc.constant(null),
  refundedThrough: fc.option(
    fc.integer({ min: 0, max: 10_000 }).map((h) => new Date(start + h * hour)),
  ),
  periodHours: fc.integer({ min: 1, max: 8760 }),
  graceHours: fc.option(fc.integer({ min: 0, max: 72 })),
});

void t.test(
  'without paid time or trial there is no access; access ends within the grace after the paid time or live trial; a refunded period is no paid time',
  (t) => {
    fc.assert(
      fc.property(terms, (given) => {
        const until = accessUntil(given);
        const live = ['active', 'past_due'].includes(given.status);
        const refunded = given.refundedThrough?.getTime() ?? 0;
        const paid = given.paidThrough?.getTime() ?? 0;
        const covered = Math.max(
          paid > refunded ? paid : 0,
          live ? (given.trialEndsAt?.getTime() ?? 0) : 0,
        );
        if (covered === 0) return until === null;
        const beyond = until!.getTime() - covered;
        const renewing = live && given.cancelRequestedAt === null && given.nextPaymentDue !== null;
        return beyond === (renewing ? graceMs(given) : 0);
      }),
      { numRuns: 2000 },
    );
    t.end();
  },
);

void t.test(
  'a subscriber that pays within the grace of each renewal has access without a gap over 24 periods',
  (t) => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 8760 }),
        fc.option(fc.integer({ min: 1, max: 72 })),
        fc.array(fc.double({ min: 0, max: 0.999, noNaN: true }), { minLength: 24, maxLength: 24 }),
        (periodHours, graceHours, delays) => {
          const free = {
            trialEndsAt: null,
            pausedAt: null,
            refundedThrough: null,
            replacedAt: null,
          };
          const terms = { ...free, periodHours, graceHours };
          const base = { status: 'active', cancelRequestedAt: null, ...terms };
          let paidThrough = new Date(start + periodHours * hour);
          for (const delay of delays) {
            // Until the payment is final, the row still shows the previous period.
            const waiting = accessUntil({ ...base, paidThrough, nextPaymentDue: paidThrough })!;
            const finalAt = paidThrough.getTime() + Math.floor(delay * graceMs(base));
            if (finalAt >= waiting.getTime()) return false;
            paidThrough = new Date(paidThrough.getTime() + periodHours * hour);
          }
          return true;
        },
      ),
    );
    t.end();
  },
);

void t.test(
  'the subscription with the latest end of access decides the answer, which holds until revalidateAfter',
  (t) => {
    const given = fc.array(terms, { maxLength: 4 });
    fc.assert(
      fc.property(given, fc.integer({ min: 0, max: 12_000 }), fc.nat(99), (rows, hours, share) => {
        const now = new Date(start + hours * hour);
        const subscriptions = rows.map((row, place) => ({ id: String(place), ...row }));
        const longest = Math.max(0, ...rows.map((row) => accessUntil(row)?.getTime() ?? 0));
        const answer = judgeAccess(subscriptions, now);
        if (answer.hasAccess !== longest > now.getTime()) return false;
        if ((answer.accessUntil?.getTime() ?? 0) !== longest) return false;
        if (answer.hasAccess !== ['paid', 'trial', 'grace'].includes(answer.reason)) return false;
        if (answer.revalidateAfter <= now) return false;
        // Within that time a later answer is the same.
        const span = answer.revalidateAfter.getTime() - now.getTime();
        const later = new Date(now.getTime() + Math.floor((span * share) / 100));
        return judgeAccess(subscriptions, later).hasAccess === answer.hasAccess;
      }),
      { numRuns: 2000 },
    );
    t.end();
  },
);
