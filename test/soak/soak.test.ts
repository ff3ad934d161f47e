// The short soak; the long one is `npm run soak`.
import t from 'tap';
import { TROUBLES } from './faults.ts';
import { soak } from './soak.ts';

void t.test(
  'four keepers, faults, kill -9 and wallets at random: the books and the chain agree',
  { timeout: 280_000 },
  async (t) => {
    const few = { keepers: 4, subscriptions: 30, payments: 40, patienceMs: 400 };
    const { result, breaches } = await soak({ seed: 3, ...few, tell: (line) => t.comment(line) });
    t.same(breaches, []);
    t.ok(result.payments.succeeded >= 40);
    t.ok(Object.keys(result.acts).length > 5, 'wallets acted');
    for (const name of TROUBLES) t.ok((result.faults[name] ?? 0) >= 1, name);
    t.equal(Object.keys(result.junk).length, 6, 'the stranger sent every kind');
    t.ok(result.junkNamed > 0, 'unreadable transactions are named');
    for (const [name, holds] of Object.entries(result.invariants)) t.ok(holds, name);
  },
);
