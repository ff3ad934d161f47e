// Values in texts: each placeholder once, and no value is read for placeholders.
import t from 'tap';
import { fill } from '../../src/words/fill.ts';

void t.test('each placeholder of a text is replaced by its value', async (t) => {
  t.equal(fill('{n} of {all}: {n}', { n: 2, all: '5' }), '2 of 5: 2');
  t.equal(fill('Paid.', { n: 1 }), 'Paid.');
  t.equal(fill('{a}|{missing}', { a: 'x' }), 'x|');
});

void t.test('a value that looks like a placeholder is not replaced again', async (t) => {
  const values = { plan: '{amount}', amount: '$& $1 <b>' };
  t.equal(fill('{plan} for {amount}', values), '{amount} for $& $1 <b>');
  t.equal(fill('{amount} for {plan}', values), '$& $1 <b> for {amount}');
});
