import fc from 'fast-check';
import t from 'tap';
import { expiryOf, nextAttemptAt, RETRY_HOURS } from '../../../src/domain/collecting/dunning.ts';

const hour = 3_600_000;
const since = new Date('2026-03-01T12:00:00Z');
const after = (hours: number) => new Date(since.getTime() + hours * hour);
const next = (hours: number, options: { days?: number; nextPeriod?: Date | null } = {}) =>
  nextAttemptAt(after(hours), { pastDueSince: since, days: 7, nextPeriod: null, ...options });

void t.test(
  'retries are due 1, 6, 24, 72 and 120 hours after the first failure, and the last at the expiry',
  async (t) => {
    t.same(
      [0, 1, 6, 24, 72, 120, 168].map((hours) => next(hours)),
      [1, 6, 24, 72, 120, 168].map((hours) => after(hours)).concat(null as never),
    );
  },
);

void t.test(
  'a late retry does not postpone later retries, and skipped retries are not made up for',
  async (t) => {
    t.same(next(5.9), after(6));
    t.same(next(30), after(72));
    t.same(next(200), null);
  },
);

void t.test(
  'the next attempt is at the start of the next period if that is before the next retry',
  async (t) => {
    t.same(next(24, { nextPeriod: after(30) }), after(30));
    t.same(next(24, { nextPeriod: after(100) }), after(72));
    t.same(next(24, { nextPeriod: after(20) }), after(24), 'one that has begun is due at once');
  },
);

void t.test(
  'the next attempt is never in the past or after the expiry, and exists exactly until the expiry',
  async (t) => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 400 * 3600 }),
        fc.integer({ min: 1, max: 15 }),
        fc.option(fc.integer({ min: -10_000, max: 400 * 3600 })),
        (seconds, days, period) => {
          const now = new Date(since.getTime() + seconds * 1000);
          const nextPeriod = period === null ? null : new Date(since.getTime() + period * 1000);
          const at = nextAttemptAt(now, { pastDueSince: since, days, nextPeriod });
          const expiry = expiryOf(since, days);
          if (now >= expiry) return at === null;
          if (at === null || at < now || at > expiry) return false;
          const skipped = RETRY_HOURS.map((hours) => after(hours)).filter(
            (retry) => retry > now && retry < at,
          );
          return skipped.length === 0;
        },
      ),
    );
    t.pass();
  },
);

void t.test(
  'the attempts of any plan’s schedule are in order, and none is after the expiry',
  async (t) => {
    const schedule = fc.uniqueArray(fc.integer({ min: 1, max: 2160 }), {
      minLength: 1,
      maxLength: 10,
    });
    fc.assert(
      fc.property(schedule, fc.integer({ min: 1, max: 90 }), (hours, days) => {
        const retryHours = [...hours].sort((a, b) => a - b);
        const attempts: number[] = [];
        for (let now: Date | null = since; ;) {
          now = nextAttemptAt(now, { pastDueSince: since, days, nextPeriod: null, retryHours });
          if (now === null) break;
          attempts.push((now.getTime() - since.getTime()) / hour);
        }
        const within = retryHours.filter((one) => one < days * 24);
        return attempts.join() === [...within, days * 24].join();
      }),
    );
    t.pass('held for every schedule');
  },
);
