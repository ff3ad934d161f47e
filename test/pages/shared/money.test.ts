import t from 'tap';
import { formatCents, formatSolShort, parseUsdc } from '../../../src/pages/shared/money.ts';

void t.test('figures are rounded to the cent, half a cent up', async (t) => {
  t.strictSame(['0', '4999', '5000', '1234560000'].map(formatCents), [
    '0.00',
    '0.00',
    '0.01',
    '1,234.56',
  ]);
});

void t.test('SOL is rounded up at the fifth decimal', async (t) => {
  t.strictSame(['0', '1', '2300000', '1500000001'].map(formatSolShort), [
    '0.00',
    '0.00001',
    '0.0023',
    '1.50001',
  ]);
});

void t.test('a typed amount of USDC becomes base units', async (t) => {
  t.equal(parseUsdc(' 9.5 '), '9500000');
  t.strictSame(['0', '0.0000001', '1,5', '', '-1'].map(parseUsdc), Array(5).fill(undefined));
});
