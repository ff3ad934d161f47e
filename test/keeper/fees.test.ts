import t from 'tap';
import { createFees } from '../../src/keeper/fees.ts';
import { silent } from '../fixtures/billing.ts';

const shape = { pulls: 2, creations: 0, tries: 0 };

function feesOf(answers: { fees?: bigint[] | Error; units?: number; err?: unknown }) {
  return createFees(
    {
      getRecentPrioritizationFees: async () => {
        if (answers.fees instanceof Error) throw answers.fees;
        return answers.fees ?? [];
      },
      simulateTransaction: async () => ({ err: answers.err ?? null, logs: [], unitsConsumed: BigInt(answers.units ?? 0), slot: 1n }),
    },
    silent,
  );
}

void t.test('the priority fee is the median of recent ones, and a fee spike is capped', async (t) => {
  t.equal(await feesOf({ fees: [9_000n, 1n, 500n] }).price([]), 500n);
  t.equal(await feesOf({ fees: [] }).price([]), 0n);
  t.equal(await feesOf({ fees: [9_000_000_000n, 8_000_000_000n, 1n] }).price([]), 50_000n);
});

void t.test('fees that cannot be read do not stop a payment', async (t) => {
  t.equal(await feesOf({ fees: new Error('out of reach') }).price([]), 0n);
});

void t.test(
  'the compute limit is the costliest simulation and a fifth, more for wallets whose address takes more tries to derive',
  async (t) => {
    const fees = feesOf({ units: 50_000 });
    t.equal(fees.units(shape), 600_000, 'before anything is known');
    await fees.sample({ ...shape, tries: 1 }, Buffer.alloc(0));
    t.equal(fees.units(shape), 60_000);
    t.equal(fees.units({ ...shape, tries: 1 }), 60_000);
    t.equal(fees.units({ ...shape, tries: 4 }), 1.2 * (50_000 + 2 * 3 * 1500));
    t.equal(fees.units({ ...shape, creations: 1 }), 600_000, 'another kind of transaction is another matter');
  },
);

void t.test('a simulation that fails teaches nothing', async (t) => {
  const fees = feesOf({ units: 50_000, err: 'AccountNotFound' });
  await fees.sample(shape, Buffer.alloc(0));
  t.equal(fees.units(shape), 600_000);
  t.ok(fees.wantsSample(shape));
});

void t.test('a payment that runs out of compute units raises the limit, once for a whole batch', async (t) => {
  const fees = feesOf({ units: 50_000 });
  await fees.sample(shape, Buffer.alloc(0));
  for (let failed = 0; failed < 200; failed += 1) fees.exceeded(shape);
  t.equal(fees.units(shape), 90_000);
});
