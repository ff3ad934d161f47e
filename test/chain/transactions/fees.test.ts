import t from 'tap';
import { Fees } from '../../../src/chain/transactions/fees.ts';
import { silent } from '../../fixtures/billing.ts';

const shape = { pulls: 2, tries: 0 };

function feesOf(responses: {
  fees?: bigint[] | Error;
  units?: number;
  err?: unknown;
  loaded?: bigint;
}) {
  return new Fees(
    {
      getRecentPrioritizationFees: async () => {
        if (responses.fees instanceof Error) throw responses.fees;
        return responses.fees ?? [];
      },
      simulateTransaction: async () => ({
        err: responses.err ?? null,
        logs: [],
        unitsConsumed: BigInt(responses.units ?? 0),
        loadedDataBytes: responses.loaded ?? null,
        slot: 1n,
      }),
    },
    silent,
  );
}

void t.test(
  'the priority fee is a percentile of recent fees on the chain, and never below the floor',
  async (t) => {
    t.equal(await feesOf({ fees: [0n, 9_000n, 0n, 2_000n, 5_000n, 7_000n, 0n] }).price(), 9_000n);
    t.equal(await feesOf({ fees: [4_000n, 0n, 3_000n, 2_000n, 8_000n, 6_000n] }).price(), 6_000n);
    t.equal(await feesOf({ fees: [0n, 0n, 5n] }).price(), 1_000n);
    t.equal(await feesOf({ fees: [] }).price(), 1_000n);
  },
);

void t.test(
  'the priority fee doubles with each expired attempt, up to 5,000 lamports a payment',
  async (t) => {
    const fees = feesOf({});
    const period = (subscription: string, periodStart = 1n) => ({ subscription, periodStart });
    t.equal(fees.priorityFee([period('a')], 2_000n, 100_000), 200n);
    fees.expired(period('a'));
    fees.expired(period('a'));
    t.equal(fees.priorityFee([period('a')], 2_000n, 100_000), 800n);
    t.equal(fees.priorityFee([period('b'), period('a')], 2_000n, 200_000), 1_600n);
    t.equal(fees.priorityFee([period('b'), period('c')], 2_000n, 200_000), 400n);
    for (let attempt = 0; attempt < 100; attempt += 1) fees.expired(period('a'));
    t.equal(fees.priorityFee([period('a')], 2_000n, 100_000), 5_000n);
    t.equal(fees.priorityFee([period('b'), period('a'), period('c')], 2_000n, 1_000_000), 15_000n);
    t.equal(
      fees.priorityFee([period('a', 2n)], 2_000n, 100_000),
      200n,
      'another keeper collected that period',
    );
    fees.landed('a');
    t.equal(fees.priorityFee([period('a')], 2_000n, 100_000), 200n);
  },
);

void t.test(
  'the loaded-data limit is the size that a simulation loaded plus a margin, or the maximum before any simulation',
  async (t) => {
    const fees = feesOf({ units: 50_000, loaded: 100_000n });
    t.ok(fees.sharedData() > 60 * 1024 * 1024);
    await fees.sample(shape, Buffer.alloc(0));
    t.equal(fees.sharedData(), 120_000 + 64 * 64);
    fees.exceeded();
    t.equal(fees.sharedData(), 180_000 + 64 * 64);
    const silentOnes = feesOf({ units: 50_000 });
    await silentOnes.sample(shape, Buffer.alloc(0));
    t.ok(silentOnes.sharedData() > 60 * 1024 * 1024, 'an endpoint that does not count it');
  },
);

void t.test('fees that cannot be read do not stop a payment', async (t) => {
  t.equal(await feesOf({ fees: new Error('out of reach') }).price(), 1_000n);
});

void t.test(
  'the compute limit is 20% above the costliest simulation, and higher for addresses that cost more',
  async (t) => {
    const fees = feesOf({ units: 50_000 });
    t.equal(fees.units(shape), 600_000, 'before anything is known');
    await fees.sample({ ...shape, tries: 1 }, Buffer.alloc(0));
    t.equal(fees.units(shape), 60_000);
    t.equal(fees.units({ ...shape, tries: 1 }), 60_000);
    t.equal(fees.units({ ...shape, tries: 4 }), 1.2 * (50_000 + 2 * 3 * 1500));
    t.equal(fees.units({ ...shape, pulls: 1 }), 600_000, 'another kind of transaction');
  },
);

void t.test('a failed simulation does not change the limits', async (t) => {
  const fees = feesOf({ units: 50_000, err: 'AccountNotFound' });
  await fees.sample(shape, Buffer.alloc(0));
  t.equal(fees.units(shape), 600_000);
  t.ok(fees.wantsSample(shape));
});

void t.test('payments that run out of compute units raise the limit once per batch', async (t) => {
  const fees = feesOf({ units: 50_000 });
  await fees.sample(shape, Buffer.alloc(0));
  for (let failed = 0; failed < 200; failed += 1) fees.exceeded();
  t.equal(fees.units(shape), 90_000);
});

void t.test(
  'if no endpoint simulates, simulations are not requested again for each batch',
  async (t) => {
    const fees = new Fees(
      {
        getRecentPrioritizationFees: async () => [],
        simulateTransaction: async () => {
          throw new Error('out of reach');
        },
      },
      silent,
    );
    t.ok(fees.wantsSample(shape));
    await t.rejects(fees.sample(shape, Buffer.alloc(0)), { message: 'out of reach' });
    t.notOk(fees.wantsSample(shape));
    t.equal(fees.units(shape), 600_000);
  },
);
