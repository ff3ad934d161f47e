// The days of the presets, in UTC.
import t from 'tap';
import { datesOf, daysOf, presets } from '../../../../src/pages/dashboard/parts/presets.ts';

const rangesAt = (now: string) =>
  Object.fromEntries(
    presets.map(([preset]) => [preset, datesOf(daysOf(preset, new Date(now))).join(' ')]),
  );

void t.test('each preset of the date filter covers whole days', (t) => {
  t.same(rangesAt('2026-11-26T15:00:00Z'), {
    'this-month': '2026-11-01 2026-11-30',
    'last-month': '2026-10-01 2026-10-31',
    'this-quarter': '2026-10-01 2026-12-31',
    'last-quarter': '2026-07-01 2026-09-30',
    'this-year': '2026-01-01 2026-12-31',
    'last-30-days': '2026-10-28 2026-11-26',
  });
  t.end();
});

void t.test('date presets are right to the millisecond at the turn of the year', (t) => {
  t.same(rangesAt('2027-12-31T23:59:59.999Z'), {
    'this-month': '2027-12-01 2027-12-31',
    'last-month': '2027-11-01 2027-11-30',
    'this-quarter': '2027-10-01 2027-12-31',
    'last-quarter': '2027-07-01 2027-09-30',
    'this-year': '2027-01-01 2027-12-31',
    'last-30-days': '2027-12-02 2027-12-31',
  });
  t.same(rangesAt('2028-01-01T00:00:00Z'), {
    'this-month': '2028-01-01 2028-01-31',
    'last-month': '2027-12-01 2027-12-31',
    'this-quarter': '2028-01-01 2028-03-31',
    'last-quarter': '2027-10-01 2027-12-31',
    'this-year': '2028-01-01 2028-12-31',
    'last-30-days': '2027-12-03 2028-01-01',
  });
  t.equal(rangesAt('2028-03-31T12:00:00Z')['last-month'], '2028-02-01 2028-02-29');
  t.end();
});
