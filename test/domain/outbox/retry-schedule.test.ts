import fc from 'fast-check';
import t from 'tap';
import {
  judge,
  MAX_RETRY_AFTER,
  parseRetryAfter,
} from '../../../src/domain/outbox/retry-schedule.ts';

const minute = 60_000;
const hour = 60 * minute;

void t.test(
  'a failed attempt is repeated after 1 m, 5 m, 30 m, 2 h and 12 h, and the sixth is the last',
  async (t) => {
    const outcomes = [1, 2, 3, 4, 5, 6].map((number) => judge(number, 500));
    t.same(outcomes, [
      ...[minute, 5 * minute, 30 * minute, 2 * hour, 12 * hour].map((delayMs) => ({
        status: 'pending',
        delayMs,
      })),
      { status: 'failed' },
    ]);
  },
);

void t.test('only a 2xx status counts as delivered', async (t) => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 6 }),
      fc.option(fc.integer({ min: 100, max: 999 })),
      (number, status) => {
        const delivered = judge(number, status).status === 'delivered';
        return delivered === (status !== null && status >= 200 && status <= 299);
      },
    ),
  );
  t.pass();
});

void t.test('410 Gone fails immediately', async (t) => {
  t.same(judge(1, 410), { status: 'failed' });
});

void t.test(
  'Retry-After on 429 and 503 lengthens the wait, up to 12 h, never shortens it and adds no attempt',
  async (t) => {
    t.same(judge(1, 429, 10 * minute), { status: 'pending', delayMs: 10 * minute });
    t.same(judge(1, 503, 10 * minute), { status: 'pending', delayMs: 10 * minute });
    t.same(judge(1, 503, 1000), { status: 'pending', delayMs: minute });
    t.same(judge(1, 429, 1000 * hour), { status: 'pending', delayMs: MAX_RETRY_AFTER });
    t.same(judge(1, 500, 10 * minute), { status: 'pending', delayMs: minute });
    t.same(judge(6, 429, 10 * minute), { status: 'failed' });
  },
);

void t.test('Retry-After is read as seconds or as an HTTP date', async (t) => {
  const now = Date.UTC(2026, 0, 1);
  t.equal(parseRetryAfter('120', now), 120_000);
  t.equal(parseRetryAfter(' 7 ', now), 7000);
  t.equal(parseRetryAfter('Thu, 01 Jan 2026 00:02:00 GMT', now), 120_000);
  t.equal(parseRetryAfter('Wed, 31 Dec 2025 23:00:00 GMT', now), 0, 'past');
  for (const nonsense of [
    undefined,
    '',
    'soon',
    '-5',
    '1.5',
    '2026-01-01T01:00:00Z',
    'Thu, 99 Foo 2026 GMT',
  ]) {
    t.equal(parseRetryAfter(nonsense, now), 0, String(nonsense));
  }
});
