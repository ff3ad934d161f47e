import fc from 'fast-check';
import t from 'tap';
import { createRateLimit } from '../../../src/chain/rpc/rate-limit.ts';

void t.test('without a rate limit no request waits', (t) => {
  const limit = createRateLimit();
  for (let request = 0; request < 1000; request += 1) {
    limit.take(5);
  }
  t.equal(limit.delay(5), 0);
  t.end();
});

void t.test(
  'no window of one second exceeds the rate, and a burst up to the rate is sent immediately',
  (t) => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.integer({ min: 0, max: 500 }), { minLength: 20, maxLength: 300 }),
        (rate, gaps) => {
          const limit = createRateLimit(rate);
          const sent: number[] = [];
          let now = 0;
          for (const gap of gaps) {
            now += gap;
            now += limit.delay(now);
            limit.take(now);
            sent.push(now);
          }
          return sent.every((from, index) => (sent[index + rate] ?? Infinity) - from > 1000);
        },
      ),
    );
    const limit = createRateLimit(5);
    for (let left = 5; left > 0; left -= 1) {
      t.equal(limit.allowed(100), left);
      t.equal(limit.delay(100), 0);
      limit.take(100);
    }
    t.equal(limit.allowed(1100), 0);
    t.equal(limit.delay(1100), 50);
    t.equal(limit.allowed(1150), 5);
    t.end();
  },
);

void t.test('a pause of the rate limit delays every request until the pause ends', (t) => {
  const limit = createRateLimit(1000);
  limit.pauseUntil(500);
  limit.pauseUntil(300);
  t.equal(limit.delay(100), 400);
  t.equal(limit.delay(499), 1);
  t.equal(limit.delay(500), 0);
  t.end();
});
