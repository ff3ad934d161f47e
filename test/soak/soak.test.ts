// The short soak; the long one is `npm run soak`.
import t from 'tap';
import { isLong } from '../fixtures/long.ts';
import { TROUBLES } from './faults.ts';
import { soak } from './soak.ts';

/** Acts that the soak takes at least once. */
const ACTS = [
  'poor after the read',
  'revoked after the read',
  'forceCancel in the air',
  'discount',
  'pause',
  'unpause',
  'refund',
];

void t.test(
  'the books and the chain agree after several keepers, faults, kill -9 and random acts of wallets',
  async (t) => {
    // How many of these few payments share a transaction depends on the load of the machine; a
    // payment alone costs 5,000 lamports.
    const few = {
      keepers: isLong ? 4 : 2,
      subscriptions: 60,
      payments: isLong ? 150 : 54,
      acts: ACTS,
      patience: 14,
      // The file's timeout ends what hangs.
      drainMs: Infinity,
      maxLamports: 5000,
    };
    const { result, breaches } = await soak({ seed: 3, ...few, report: (line) => t.comment(line) });
    t.same(breaches, []);
    t.ok(result.payments.succeeded >= few.payments);
    t.ok(result.paymentsPerTransaction > 1.5, `${result.paymentsPerTransaction} in each`);
    t.ok((result.transactions['failed'] ?? 0) > 0, 'packs failed');
    const acted = (name: string) => t.ok((result.acts[name] ?? 0) > 0, name);
    for (const name of ACTS) acted(name);
    t.ok((result.refunds['succeeded'] ?? 0) > 0, 'refunds are recorded');
    t.ok((result.events['renewal_upcoming'] ?? 0) > 0, 'payments are announced');
    t.ok(Object.keys(result.acts).length > 5, 'wallets acted');
    for (const name of TROUBLES) t.ok((result.faults[name] ?? 0) >= 1, name);
    t.equal(Object.keys(result.junk).length, 6, 'the stranger sent every kind');
    t.ok(result.junkNamed > 0, 'unreadable transactions are named');
    for (const [name, holds] of Object.entries(result.invariants)) t.ok(holds, name);
  },
);
