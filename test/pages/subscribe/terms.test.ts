// Whether a wallet must see its own terms before it signs.
import t from 'tap';
import type { components } from '../../../src/client/openapi.ts';
import { isOther, type Terms } from '../../../src/pages/subscribe/terms.ts';

const run = (amount: string, times: number | null) => ({
  amount,
  creditSpent: '0',
  dueAt: '2026-11-26T00:00:00.000Z',
  until: '2026-12-26T00:00:00.000Z',
  times,
});
const plan: Terms = { trialHours: null, schedule: [run('10000000', null)] };
const own = (more: Partial<components['schemas']['Standing']>) => {
  const standing: unknown = { ...plan, usdcNeeded: '10000000', change: null, ...more };
  return standing as components['schemas']['Standing'];
};

void t.test(
  'a wallet signs without a second confirmation if its terms equal those of the plan',
  async (t) => {
    t.equal(isOther(plan, own({})), false);
  },
);

void t.test(
  'the reduced amount for a running account is shown once before the wallet signs',
  async (t) => {
    const resumed = own({
      usdcNeeded: '3150646',
      schedule: [run('3150646', 1), run('10000000', null)],
    });
    t.equal(isOther(plan, resumed), true);
    t.equal(isOther(resumed, own({ ...resumed, usdcNeeded: '3150600' })), false, 'a minute later');
    t.equal(isOther(resumed, own({ ...resumed, usdcNeeded: '3100000' })), true, 'hours later');
    t.equal(isOther(resumed, own({ ...resumed, usdcNeeded: '3150647' })), true, 'never more');
    t.equal(isOther(plan, own({ usdcNeeded: '0' })), true, 'a period that is paid');
  },
);

void t.test(
  'a difference in the trial, in either direction, is shown before the wallet signs',
  async (t) => {
    const trial = { ...plan, trialHours: 168 };
    t.equal(isOther(trial, own({})), true);
    t.equal(isOther(trial, own({ trialHours: 168, usdcNeeded: '0' })), false);
  },
);

void t.test(
  'the terms of a change of plan are shown once, even if its credit shrinks',
  async (t) => {
    const change = { credit: '1' } as components['schemas']['SessionChange'];
    t.equal(isOther(plan, own({ change, usdcNeeded: '7000000' })), true);
    const shown = own({ change, usdcNeeded: '7000000' });
    t.equal(isOther(shown, own({ change, usdcNeeded: '7000001' })), false);
  },
);
