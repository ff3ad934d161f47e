import t from 'tap';
import { exactMoment, moment, parseMoment, span } from '../../../src/cli/terminal/time.ts';

const now = new Date('2026-11-21T12:00:00.500Z');

void t.test('times are shown in UTC', async (t) => {
  t.equal(moment(now), '2026-11-21 12:00:00');
  t.equal(moment(now, true), '11-21 12:00:00');
  t.equal(exactMoment(now), '2026-11-21 12:00:00.500');
  t.same([0, 59_999, 60_000, 7_200_000, 172_800_000, -5].map(span), [
    '0 s',
    '59 s',
    '1 min',
    '2 h',
    '2 d',
    '0 s',
  ]);
});

void t.test('times typed in common forms are parsed', async (t) => {
  const read = (text: string) => parseMoment(text, now)?.toISOString();
  t.equal(read('2026-11-20'), '2026-11-20T00:00:00.000Z');
  t.equal(read('2026-11-20 09:30'), '2026-11-20T09:30:00.000Z');
  t.equal(read('2026-11-20T09:30:01.25Z'), '2026-11-20T09:30:01.250Z');
  t.equal(read('2026-11-20T09:30+02:00'), '2026-11-20T07:30:00.000Z');
  t.equal(read('6h'), '2026-11-21T06:00:00.500Z');
  t.equal(read('90m'), '2026-11-21T10:30:00.500Z');
  for (const text of [
    '',
    'yesterday',
    '12',
    '7w',
    '2026-13-01',
    '2026-02-30T25:00Z',
    '2027-02-29',
    '20260101',
  ])
    t.equal(read(text), undefined, text);
});
