import fc from 'fast-check';
import t from 'tap';
import { split } from '../../src/domain/money.ts';

const gross = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n });
const feeBps = fc.integer({ min: 0, max: 10_000 });

void t.test(
  'the split is fee = floor(gross * bps / 10000) and net = the rest, both at least 0',
  (t) => {
    fc.assert(
      fc.property(gross, feeBps, (amount, bps) => {
        const { fee, net } = split(amount, bps);
        return (
          fee + net === amount &&
          fee >= 0n &&
          net >= 0n &&
          fee * 10_000n <= amount * BigInt(bps) &&
          (fee + 1n) * 10_000n > amount * BigInt(bps)
        );
      }),
    );
    t.same(split(9_990_000n, 100), { gross: 9_990_000n, fee: 99_900n, net: 9_890_100n });
    t.same(split(99n, 100), { gross: 99n, fee: 0n, net: 99n }, 'a fee that rounds to zero');
    t.same(split(2n ** 63n - 1n, 10_000).net, 0n, 'no overflow at the largest amount');
    t.end();
  },
);
