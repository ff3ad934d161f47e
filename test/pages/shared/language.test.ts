// Texts with a number.
import t from 'tap';
import { counted, formOf } from '../../../src/pages/shared/language.ts';

void t.test('a text is shown in the plural form of its number and language', async (t) => {
  const days = { one: 'a day of {what}', other: '{n} days of {what}' };
  t.equal(counted(days, 1, { what: '{n}' }), 'a day of {n}');
  t.equal(counted(days, 1000, { what: 'rest' }), '1,000 days of rest');
});

void t.test('a plural category without its own text uses the form "other"', async (t) => {
  t.equal(formOf({ other: 'days' }, 1), 'days');
  t.equal(formOf({ few: 'some', other: 'days' }, 2), 'days');
});
