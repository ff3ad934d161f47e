import t from 'tap';
import {
  formatCents,
  formatExact,
  formatSolShort,
  formatToCent,
  parseUsdc,
  upToCent,
} from '../../../src/pages/shared/money.ts';

void t.test('amounts in figures are rounded to the cent, half a cent up', async (t) => {
  t.strictSame(['0', '4999', '5000', '1234560000'].map(formatCents), [
    '0.00',
    '0.00',
    '0.01',
    '1,234.56',
  ]);
});

void t.test(
  'an exact amount is shown with at least two decimals, and more if it has more',
  async (t) => {
    t.strictSame(['999990000', 1_234_500_000n, 2n ** 63n - 1n, 5000n].map(formatExact), [
      '999.99',
      '1,234.50',
      '9,223,372,036,854.775807',
      '0.005',
    ]);
  },
);

void t.test('a divided amount is shown to the cent unless a fraction of it matters', async (t) => {
  const table: [units: bigint, shown: string][] = [
    [19_246_575n, '19.25'],
    [7_698_630n, '7.70'],
    [6_693_300n, '6.69'],
    [2_500_000n, '2.50'],
    [5_005_000n, '5.01'],
    [4_995_000n, '4.995'],
    [12_345n, '0.012345'],
    [1n, '0.000001'],
    [0n, '0.00'],
  ];
  for (const [units, shown] of table) t.equal(formatToCent(units), shown);
});

void t.test('the amount of USDC that a wallet lacks is shown rounded up to the cent', async (t) => {
  t.strictSame(['0', '1', '10000', '3150001'].map(upToCent), [0n, 10_000n, 10_000n, 3_160_000n]);
});

void t.test('SOL is rounded up at the fifth decimal', async (t) => {
  t.strictSame(['0', '1', '2300000', '1500000001'].map(formatSolShort), [
    '0.00',
    '0.00001',
    '0.0023',
    '1.50001',
  ]);
});

void t.test('an entered USDC amount is converted to base units', async (t) => {
  t.equal(parseUsdc(' 9.5 '), '9500000');
  t.strictSame(['0', '0.0000001', '1,5', '', '-1'].map(parseUsdc), Array(5).fill(undefined));
});
