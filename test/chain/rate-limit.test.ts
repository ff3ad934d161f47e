import fc from 'fast-check';
import t from 'tap';
import { createRateLimit } from '../../src/chain/rate-limit.ts';

void t.test('without a rate nothing waits', (t) => {
  const limit = createRateLimit();
  for (let request = 0; request < 1000; request += 1) {
    limit.take(5);
  }
  t.equal(limit.delay(5), 0);
  t.end();
});

void t.test(
  'in no second more than twice the rate goes out, and in the long run not more than the rate',
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
          // A burst of one second's worth, then evenly: the bound of a leaky bucket of that size, in every window. The last digit is float's.
          return sent.every((from, place) =>
            sent
              .slice(place)
              .every((to, ahead) => ahead + 1 <= rate + ((to - from) * rate) / 1000 + 1e-6),
          );
        },
      ),
    );
    t.pass();
    t.end();
  },
);

void t.test('a pause delays every request until its end', (t) => {
  const limit = createRateLimit(1000);
  limit.pauseUntil(500);
  limit.pauseUntil(300);
  t.equal(limit.delay(100), 400);
  t.equal(limit.delay(499), 1);
  t.equal(limit.delay(500), 0);
  t.end();
});
