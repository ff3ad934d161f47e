// The lines of the page that say what is paid today, next and after.
import t from 'tap';
import { linesOf } from '../../../src/pages/subscribe/schedule.ts';

const START = Date.UTC(2026, 10, 26);
const DAY_MS = 86_400_000;
const iso = (day: number) => new Date(START + day * DAY_MS).toISOString();
/**
 * An entry of the API's schedule: the amount, the days of its due time and its end, and the number
 * of payments.
 */
type Run = [amount: string, due: number, until: number, times: number | null];
const dayOf = (time: Date | null) =>
  time === null ? null : Math.round((time.getTime() - START) / DAY_MS);
const lines = (runs: Run[], trialHours: number | null = null) =>
  linesOf({
    periodHours: 720,
    trialHours,
    schedule: runs.map(([amount, due, until, times]) => ({
      amount,
      creditSpent: '0',
      dueAt: iso(due),
      until: iso(until),
      times,
    })),
  }).map(({ amount, at, until, times }) => [amount, dayOf(at), dayOf(until), times]);

void t.test(
  "the schedule of a plan without special terms has two lines: today's payment and later payments",
  async (t) => {
    t.strictSame(lines([['5', 0, 30, null]]), [
      ['5', null, null, 1],
      ['5', 30, null, null],
    ]);
  },
);

void t.test(
  'the schedule with a discount for two payments has three lines: today, next and after',
  async (t) => {
    const runs: Run[] = [
      ['2.5', 0, 30, 2],
      ['5', 60, 90, null],
    ];
    t.strictSame(lines(runs), [
      ['2.5', null, null, 1],
      ['2.5', 30, null, 1],
      ['5', 60, null, null],
    ]);
  },
);

void t.test('the schedule shows equal payments in one line with their number', async (t) => {
  const runs: Run[] = [
    ['2.5', 0, 30, 12],
    ['5', 360, 390, null],
  ];
  t.strictSame(lines(runs), [
    ['2.5', null, null, 1],
    ['2.5', 30, null, 11],
    ['5', 360, null, null],
  ]);
});

void t.test(
  'after a trial the schedule shows the price of the rest of the period, then the full price',
  async (t) => {
    const runs: Run[] = [
      ['19', 7, 30, 1],
      ['25', 30, 60, null],
    ];
    t.strictSame(lines(runs, 168), [
      ['19', 7, 30, 1],
      ['25', 30, null, null],
    ]);
  },
);

void t.test(
  "if the plan ends inside a period, the schedule's last line shows the reduced amount and the end",
  async (t) => {
    const runs: Run[] = [
      ['5', 0, 30, 1],
      ['2', 30, 42, 1],
    ];
    t.strictSame(lines(runs), [
      ['5', null, null, 1],
      ['2', 30, 42, 1],
    ]);
    t.strictSame(lines([]), []);
  },
);

void t.test(
  'the schedule of a resumed account whose period is paid has no payment today',
  async (t) => {
    const run = { amount: '5', creditSpent: '0', dueAt: iso(20), until: iso(50), times: null };
    const terms = { periodHours: 720, trialHours: null, schedule: [run] };
    t.strictSame(
      linesOf({ ...terms, usdcNeeded: '0' }).map(({ at }) => dayOf(at)),
      [20, 50],
    );
    t.strictSame(
      linesOf({ ...terms, usdcNeeded: '5' }).map(({ at }) => dayOf(at)),
      [null, 50],
    );
  },
);
