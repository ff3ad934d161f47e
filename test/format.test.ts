import t from 'tap';
import {
  amountDisplay,
  formatSol,
  formatUsdc,
  formatUsdcExact,
  replaceHidden,
} from '../src/format.ts';

void t.test(
  'USDC is shown with at least two decimals, and more if the amount has more',
  async (t) => {
    t.strictSame([0n, 1n, 125_000n, 12_500_000n, 1_000_000n, 1_234_560n].map(formatUsdc), [
      '0.00',
      '0.000001',
      '0.125',
      '12.50',
      '1.00',
      '1.23456',
    ]);
    t.equal(formatUsdc('1234567890120'), '1234567.89012');
  },
);

void t.test('the exact format of USDC has six decimals', async (t) => {
  t.equal(formatUsdcExact(0n), '0.000000');
  t.equal(formatUsdcExact('12375000'), '12.375000');
  t.equal(formatUsdcExact(2n ** 63n - 1n), '9223372036854.775807');
});

void t.test(
  'SOL is shown with at least two decimals, and more if the amount has more',
  async (t) => {
    t.strictSame([0n, 1n, 2_300_000n, 1_500_000_000n].map(formatSol), [
      '0.00',
      '0.000000001',
      '0.0023',
      '1.50',
    ]);
  },
);

void t.test('hidden and direction-changing characters are replaced, all others stay', async (t) => {
  const hex = (character: string) => `<${character.codePointAt(0)?.toString(16)}>`;
  // A tag, a number sign of Arabic, a musical beam, private use.
  t.equal(replaceHidden('a\u{e0041}\u0600\u{1d173}\ue000b', hex), 'a<e0041><600><1d173><e000>b');
  t.equal(replaceHidden('\x1b[2J\u202egpj\u2028\ud800', hex), '<1b>[2J<202e>gpj<2028><d800>');
  t.equal(replaceHidden('Zürich 東京 🎉', hex), 'Zürich 東京 🎉');
});

void t.test(
  'a displayed amount has at least two decimals, and more if the amount has more',
  (t) => {
    t.equal(amountDisplay(100_000n), '0.10 USDC');
    t.equal(amountDisplay(10_000_000n), '10.00 USDC');
    t.equal(amountDisplay(1n), '0.000001 USDC');
    t.equal(amountDisplay(1_234_567_890_120n), '1234567.89012 USDC');
    t.equal(amountDisplay(0n), '0.00 USDC');
    t.end();
  },
);
