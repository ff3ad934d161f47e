import t from 'tap';
import { shortUsdc, usdc } from '../../../src/cli/terminal/money.ts';

void t.test('USDC: six decimals, or as many as say something and two at the least', async (t) => {
  t.equal(usdc(0n), '0.000000');
  t.equal(usdc('12375000'), '12.375000');
  t.equal(usdc(2n ** 63n - 1n), '9223372036854.775807');
  t.same([0n, 1n, 125_000n, 12_500_000n, 1_000_000n, 1_234_560n].map(shortUsdc), [
    '0.00',
    '0.000001',
    '0.125',
    '12.50',
    '1.00',
    '1.23456',
  ]);
});
