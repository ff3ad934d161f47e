// The access rule over random histories of a subscription: paid time, due payments and
// cancellations.
import fc from 'fast-check';
import t from 'tap';
import type { AccessSubscription } from '../../../src/db/subscriptions/access.ts';
import {
  accessReasons,
  accessUntil,
  graceMs,
  judgeAccess,
  lateAccess,
} from '../../../src/domain/accounts/access.ts';

const hour = 3_600_000;
const start = Date.UTC(2026, 0, 1);

void t.test(
  'the default grace is a tenth of the period, up to 72 hours; a plan can set another or none',
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
  'a replaced subscription gives access until its successor starts, and for the grace',
  (t) => {
    const at = (hours: number) => new Date(start + hours * hour);
    const base = { trialEndsAt: null, pausedAt: null, refundedThrough: null, graceHours: 10 };
    const replaced = {
      ...{ ...base, id: 'a', status: 'active', periodHours: 720, nextPaymentDue: null },
      ...{ paidThrough: at(720), cancelRequestedAt: at(100), replacedAt: at(100) },
      ...{ startsAt: null, planEndsAt: null, isSuspended: false },
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

const someTime = fc.option(
  fc.integer({ min: 0, max: 10_000 }).map((h) => new Date(start + h * hour)),
);

const terms: fc.Arbitrary<Omit<AccessSubscription, 'id'>> = fc.record({
  startsAt: someTime,
  planEndsAt: someTime,
  isSuspended: fc.boolean(),
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

/** A daily plan, paid for the first day, with the next payment due. */
const daily: AccessSubscription = {
  ...{ id: 'a', status: 'active', periodHours: 24, graceHours: null, isSuspended: false },
  ...{ trialEndsAt: null, pausedAt: null, refundedThrough: null, replacedAt: null },
  ...{ startsAt: null, planEndsAt: null, cancelRequestedAt: null },
  ...{ paidThrough: new Date(start + 24 * hour), nextPaymentDue: new Date(start + 24 * hour) },
};

void t.test(
  'a due payment that has not failed keeps access for 72 hours, checked each minute',
  (t) => {
    const at = (hours: number) => new Date(start + hours * hour);
    const judge = (changes: Partial<AccessSubscription>, hours: number) =>
      judgeAccess([{ ...daily, ...changes }], at(hours));
    const late = { hasAccess: true, reason: 'collection_late', accessUntil: at(96) };
    const minute = new Date(at(27).getTime() + 60_000);
    t.match(judge({}, 23), { reason: 'paid', accessUntil: at(26.4), revalidateAfter: at(24) });
    t.match(judge({}, 24), late, 'as soon as it is due');
    t.match(judge({}, 27), { ...late, revalidateAfter: minute });
    t.same(judge({}, 95.995).revalidateAfter, at(96), 'never past its end');
    const over = { hasAccess: false, reason: 'payment_overdue' };
    t.match(judge({}, 96), over);
    t.match(judge({ status: 'past_due' }, 25), { hasAccess: true, reason: 'grace' });
    t.match(judge({ status: 'past_due' }, 27), over);
    t.match(judge({ isSuspended: true }, 27), over);
    t.match(judge({ isSuspended: true }, 25), { reason: 'grace', accessUntil: at(26.4) });

    const none = { hasAccess: false, reason: 'cancelled' };
    t.match(judge({ cancelRequestedAt: at(1) }, 25), none, 'nothing is due');
    t.match(judge({ status: 'cancelled' }, 25), none);
    t.match(judge({ status: 'expired' }, 25), { hasAccess: false, reason: 'expired' });
    t.match(judge({ pausedAt: at(1), nextPaymentDue: null }, 25), { reason: 'paused' });
    t.match(judge({ refundedThrough: at(24) }, 25), { hasAccess: false, reason: 'refunded' });
    const refunded = { refundedThrough: at(24), trialEndsAt: at(5) };
    t.equal(judge(refunded, 20).hasAccess, false, 'nor after the trial before that period');
    t.match(judge({ nextPaymentDue: null }, 25), over, 'the plan has no further period');
    t.match(judge({ planEndsAt: at(30) }, 29), { ...late, accessUntil: at(30) });
    t.equal(judge({ planEndsAt: at(30) }, 31).hasAccess, false, 'the plan has ended');

    const first = { paidThrough: null };
    t.match(judge(first, 25), { hasAccess: false, reason: 'first_payment_pending' });
    t.match(judge({ ...first, trialEndsAt: at(10) }, 80), { ...late, accessUntil: at(82) });
    t.match(judge({ ...first, startsAt: at(10) }, 80), { ...late, accessUntil: at(82) });
    t.equal(judge({ ...first, startsAt: at(10) }, 9).hasAccess, false, 'not before it is due');
    t.match(judge({ startsAt: at(10) }, 80), late, 'and from the paid time once that is later');

    const other = { ...daily, id: 'b', paidThrough: at(50), nextPaymentDue: at(50) };
    const both = judgeAccess([daily, other], at(30));
    t.match(both, { reason: 'collection_late', subscriptionId: 'a' }, 'the latest end decides');
    t.end();
  },
);

void t.test(
  'access lasts for paid time or a trial plus the grace, and a refunded period gives no access',
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
  'a subscriber that pays within the grace of each renewal has access without a gap',
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
  'the subscription whose access ends last decides, and the answer is valid until revalidateAfter',
  (t) => {
    const given = fc.array(terms, { maxLength: 4 });
    fc.assert(
      fc.property(given, fc.integer({ min: 0, max: 12_000 }), fc.nat(99), (rows, hours, share) => {
        const now = new Date(start + hours * hour);
        const subscriptions = rows.map((row, index) => ({ id: String(index), ...row }));
        const untilOf = (row: (typeof rows)[number]) => {
          const late = lateAccess(row);
          const isLate = late !== null && late.from <= now && !row.isSuspended;
          const isOver = row.planEndsAt !== null && row.planEndsAt <= now;
          return isLate && !isOver ? late.until : accessUntil(row);
        };
        const longest = Math.max(0, ...rows.map((row) => untilOf(row)?.getTime() ?? 0));
        const answer = judgeAccess(subscriptions, now);
        if (answer.hasAccess !== longest > now.getTime()) return false;
        if ((answer.accessUntil?.getTime() ?? 0) !== longest) return false;
        if (answer.hasAccess !== accessReasons.slice(0, 4).includes(answer.reason)) return false;
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
