import { Rent } from 'litesvm/dist/internal.js';
import t from 'tap';
import {
  createPlan,
  lamportsOf,
  newWallet,
  planOf,
  send,
  startChain,
} from '../fixtures/program.ts';

void t.test(
  'an account is created with exactly the rent of the chain, by its rate and threshold',
  async (t) => {
    for (const [rate, threshold] of [
      [6960n, 1],
      [3480n, 2],
      [1n, 1],
      [19_000n, 2],
    ] as const) {
      const chain = startChain();
      chain.svm.setRent(new Rent(rate, threshold, 50));
      const merchant = newWallet(chain);
      send(
        chain,
        [merchant],
        createPlan(chain, merchant.publicKey, { planId: 1n, amount: 1n, periodHours: 1n }),
      );
      const minimum = chain.svm.minimumBalanceForRentExemption(491n);
      t.ok(minimum > 0n);
      t.equal(
        lamportsOf(chain, planOf(merchant.publicKey, 1n)[0]),
        minimum,
        `${rate} a byte, threshold ${threshold}`,
      );
    }
  },
);

void t.test('a rent threshold that the program cannot use is refused', async (t) => {
  const chain = startChain();
  chain.svm.setRent(new Rent(3480n, 3, 50));
  const merchant = newWallet(chain);
  const create = createPlan(chain, merchant.publicKey, { planId: 1n, amount: 1n, periodHours: 1n });
  t.same(send(chain, [merchant], create), { error: 'UnsupportedSysvar', at: 0 });
});
