import { Registry } from 'prom-client';
import t from 'tap';
import { compareClocks, createClockGauge } from '../../src/daemon/clocks.ts';

void t.test(
  'if one of three clocks differs from the other two, that clock is reported as wrong',
  (t) => {
    const judged = (postgres: number | null, chain: number | null) => {
      const { odd, seconds } = compareClocks({ postgres, chain });
      return [odd, seconds];
    };
    t.same(judged(600, -5), ['postgres', 600]);
    t.same(judged(-600, 5), ['postgres', -600]);
    t.same(judged(600, 595), ['host', -595]);
    t.same(judged(-600, -605), ['host', 600]);
    t.same(judged(10, -600), ['chain', -600]);
    t.same(judged(-10, 600), ['chain', 600]);
    t.same(judged(300, -300), [null, 600], 'no two agree');
    t.same(judged(31, -31), [null, 62], 'no two agree');
    t.same(judged(600, null), [null, 600], 'two clocks');
    t.same(judged(null, -600), [null, 600], 'two clocks');
    t.same(judged(null, null), [null, 0], 'one clock');
    t.same(judged(0, 0), ['chain', 0]);
    t.end();
  },
);

void t.test('the clock gauge has one series per clock', async (t) => {
  const registry = new Registry();
  const set = createClockGauge(registry);
  const values = async () => {
    const lines = (await registry.metrics()).matchAll(/\{clock="(\w+)"\} (\S+)/g);
    return Object.fromEntries([...lines].map(([, clock = '', value]) => [clock, Number(value)]));
  };
  set({ postgres: -600, chain: 0 });
  t.same(await values(), { postgres: 600, host: 0, chain: 0, unknown: 0 });
  set({ postgres: -600, chain: null });
  t.same(await values(), { postgres: 0, host: 0, chain: 0, unknown: 600 });
});
