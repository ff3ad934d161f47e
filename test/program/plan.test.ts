import { Keypair, type PublicKey } from '@solana/web3.js';
import t from 'tap';
import {
  AMOUNT,
  createPlan,
  dataOf,
  deletePlan,
  errorOf,
  eventsOf,
  fund,
  HOUR,
  initAuthority,
  lamportsOf,
  must,
  newHolder,
  newWallet,
  now,
  PERIOD,
  planOf,
  pullOf,
  readPlan,
  setScene,
  setTime,
  START,
  startChain,
  subscribe,
  u64,
  updatePlan,
  updatePlanData,
  withAccount,
  withData,
  type PlanTerms,
  type PlanUpdate,
  type Scene,
} from '../fixtures/program.ts';

const some = (count: number) => Array.from({ length: count }, () => Keypair.generate().publicKey);

void t.test('create_plan stores its terms and the clock’s time', async (t) => {
  const chain = startChain();
  const merchant = newWallet(chain);
  const terms = {
    ...{ planId: 2n ** 64n - 1n, amount: 5n, periodHours: 730n, endTs: START + 730n * HOUR },
    ...{
      destinations: some(4),
      pullers: some(4),
      metadataUri: 'https://merchant.example/plan.json',
    },
  };
  const instruction = createPlan(chain, merchant.publicKey, terms);
  must(chain, [merchant], instruction);
  const [key, bump] = planOf(merchant.publicKey, terms.planId);
  const data = dataOf(chain, key) ?? Buffer.alloc(0);
  const given = Buffer.from(instruction.data.subarray(1));
  given.set(u64(START), 56); // created_at, which was sent as 0
  t.same(
    data,
    Buffer.concat([Buffer.of(1), merchant.publicKey.toBytes(), Buffer.of(bump, 1), given]),
  );
  t.equal(lamportsOf(chain, key), chain.svm.minimumBalanceForRentExemption(491n));
});

void t.test(
  'create_plan refuses amount 0 (129), periods of 0 or over a year (402), an end within a period (511)',
  async (t) => {
    const chain = startChain();
    const merchant = newWallet(chain);
    let planId = 0n;
    const create = (change: Partial<PlanTerms>) => {
      planId++;
      return errorOf(
        chain,
        [merchant],
        createPlan(chain, merchant.publicKey, { planId, amount: 1n, periodHours: 1n, ...change }),
      );
    };
    t.equal(create({}), undefined);
    t.equal(create({ amount: 0n }), 129);
    t.equal(create({ amount: 2n ** 64n - 1n }), undefined);
    for (const [hours, error] of [
      [0n, 402],
      [8760n, undefined],
      [8761n, 402],
      [2n ** 64n - 1n, 402],
    ] as const) {
      t.equal(create({ periodHours: hours }), error, `${hours} hours`);
    }
    for (const [end, error] of [
      [START + HOUR - 1n, 511],
      [START + HOUR, undefined],
      [START, 511],
      [1n, 511],
      [-1n, 511],
      [-(2n ** 63n), 511],
      [2n ** 63n - 1n, undefined],
    ] as const) {
      t.equal(create({ endTs: end }), error, `end ${end}`);
    }
  },
);

void t.test(
  'create_plan refuses a wrong address (502), a wrong mint (125) and an address in use (518)',
  async (t) => {
    const chain = startChain();
    const [merchant, other] = [newWallet(chain), newWallet(chain)];
    const terms = { planId: 1n, amount: 1n, periodHours: 1n };
    const create = createPlan(chain, merchant.publicKey, terms);
    t.equal(
      errorOf(chain, [merchant], withAccount(create, 1, planOf(merchant.publicKey, 2n)[0])),
      502,
    );
    t.equal(
      errorOf(chain, [other, merchant], withAccount(create, 1, planOf(other.publicKey, 1n)[0])),
      502,
    );
    const elsewhere = createPlan({ mint: Keypair.generate().publicKey }, merchant.publicKey, terms);
    t.equal(errorOf(chain, [merchant], withAccount(elsewhere, 2, chain.mint)), 125);
    for (const size of [0, 455, 457]) {
      t.equal(
        errorOf(
          chain,
          [merchant],
          withData(
            create,
            Buffer.concat([create.data.subarray(1), Buffer.of(0)]).subarray(0, size),
          ),
        ),
        112,
      );
    }
    must(chain, [merchant], create);
    t.equal(errorOf(chain, [merchant], create), 518);
  },
);

void t.test(
  'create_plan works at an address that already has lamports, and with another payer',
  async (t) => {
    const chain = startChain();
    const [merchant, sponsor] = [newWallet(chain), newWallet(chain)];
    const [key] = planOf(merchant.publicKey, 1n);
    fund(chain, key, 1_000_000n);
    const before = lamportsOf(chain, merchant.publicKey);
    must(
      chain,
      [sponsor, merchant],
      createPlan(
        chain,
        merchant.publicKey,
        { planId: 1n, amount: 1n, periodHours: 1n },
        sponsor.publicKey,
      ),
    );
    t.equal(lamportsOf(chain, merchant.publicKey), before);
    t.ok(readPlan(chain, key)?.owner.equals(merchant.publicKey));
  },
);

const update = (scene: Scene, change: PlanUpdate, by = scene.merchant) =>
  errorOf(scene, [by], updatePlan(scene, by.publicKey, scene.plan, change));

void t.test(
  'update_plan changes only status, end, pullers and metadata, and emits an event',
  async (t) => {
    const scene = setScene();
    const before = dataOf(scene, scene.plan) ?? Buffer.alloc(0);
    const change = {
      status: 0,
      endTs: START + 2n * PERIOD,
      pullers: some(2),
      metadataUri: 'ipfs://x',
    };
    const result = must(
      scene,
      [scene.merchant],
      updatePlan(scene, scene.merchant.publicKey, scene.plan, change),
    );
    const data = updatePlanData(change);
    const [status = Buffer.of(), end = Buffer.of(), pullers = Buffer.of(), uri = Buffer.of()] =
      data;
    const after = Buffer.concat([
      before.subarray(0, 34),
      status,
      before.subarray(35, 99),
      end,
      before.subarray(107, 235),
      pullers,
      uri,
    ]);
    t.same(dataOf(scene, scene.plan), after);
    const event = [
      Buffer.from('e445a52e51cb9a1d06', 'hex'),
      scene.plan.toBytes(),
      scene.merchant.publicKey.toBytes(),
      status,
      end,
      pullers,
    ];
    t.same(eventsOf(result), [Buffer.concat(event)]);
  },
);

void t.test("update_plan is refused to everyone except the plan's owner (504)", async (t) => {
  const scene = setScene();
  for (const other of [scene.stranger, scene.keeper, scene.subscriber])
    t.equal(update(scene, {}, other), 504);
});

void t.test(
  'update_plan refuses a status other than 0 and 1 (512) and a sunset without an end (514)',
  async (t) => {
    const scene = setScene();
    t.equal(update(scene, { status: 2, endTs: START + PERIOD }), 512);
    t.equal(update(scene, { status: 255 }), 512);
    t.equal(update(scene, { status: 0 }), 514);
    t.equal(
      update(scene, { status: 0, endTs: START + PERIOD, pullers: [scene.keeper.publicKey] }),
      undefined,
    );
    t.equal(errorOf(scene, [scene.keeper], pullOf(scene)), undefined, 'those who subscribed go on');
  },
);

void t.test(
  'after the sunset of a plan, update_plan may only remove pullers (else 513)',
  async (t) => {
    const scene = setScene({ metadataUri: 'a' });
    const [one, two, other] = some(3) as [PublicKey, PublicKey, PublicKey];
    const sunset = { status: 0, endTs: START + 2n * PERIOD, pullers: [one, two], metadataUri: 'a' };
    t.equal(update(scene, sunset), undefined);
    t.equal(update(scene, { ...sunset, status: 1 }), 513);
    t.equal(update(scene, { ...sunset, endTs: START + PERIOD }), 513);
    t.equal(update(scene, { ...sunset, endTs: 0n }), 513);
    t.equal(update(scene, { ...sunset, metadataUri: 'b' }), 513);
    t.equal(update(scene, { ...sunset, pullers: [one, other] }), 513);
    t.equal(update(scene, { ...sunset, pullers: [one, two, scene.keeper.publicKey] }), 513);
    t.equal(update(scene, { ...sunset, pullers: [two] }), undefined);
    t.equal(
      update(scene, { ...sunset, pullers: [one, two] }),
      513,
      'one that is gone does not come back',
    );
    t.equal(update(scene, { ...sunset, pullers: [] }), undefined);
    t.equal(
      errorOf(scene, [scene.merchant], pullOf(scene, { caller: scene.merchant.publicKey })),
      undefined,
    );
  },
);

void t.test(
  'update_plan refuses a new end within a period (511), a later end (520) and a plan past its end (501)',
  async (t) => {
    const scene = setScene();
    t.equal(update(scene, { endTs: START + PERIOD - 1n }), 511);
    t.equal(update(scene, { endTs: START + 3n * PERIOD }), undefined);
    t.equal(update(scene, { endTs: START + 3n * PERIOD + 1n }), 520);
    t.equal(update(scene, { endTs: 0n }), 520);
    t.equal(update(scene, { endTs: START + 2n * PERIOD }), undefined);
    setTime(scene, START + 2n * PERIOD);
    t.equal(update(scene, { endTs: START + 2n * PERIOD - 1n }), 511);
    t.equal(
      update(scene, { endTs: START + 2n * PERIOD, pullers: [] }),
      undefined,
      'the end unchanged, up to its last second',
    );
    setTime(scene, START + 2n * PERIOD + 1n);
    t.equal(update(scene, { endTs: START + 2n * PERIOD }), 501);
  },
);

void t.test(
  'update_plan is refused when the plan differs from the state its signer saw (522)',
  async (t) => {
    const scene = setScene({ metadataUri: 'a', endTs: START + 4n * PERIOD });
    const seen = readPlan(scene, scene.plan);
    if (seen === undefined) throw new Error('no plan');
    const send = (view: typeof seen) =>
      errorOf(
        scene,
        [scene.merchant],
        updatePlan(scene, scene.merchant.publicKey, scene.plan, { endTs: seen.endTs }, view),
      );
    t.equal(send({ ...seen, createdAt: START - 1n }), 522);
    t.equal(send({ ...seen, endTs: 0n }), 522);
    t.equal(send({ ...seen, pullers: [] }), 522);
    t.equal(
      send({ ...seen, pullers: [...seen.pullers.slice(0, 3), scene.stranger.publicKey] }),
      522,
    );
    t.equal(send({ ...seen, metadataUri: 'b' }), 522);
    t.equal(send(seen), undefined);
  },
);

void t.test(
  "delete_plan works for the owner only (504), after the plan's end (515), and returns the rent",
  async (t) => {
    const scene = setScene({ endTs: START + PERIOD });
    const { merchant, plan } = scene;
    const remove = (owner: Keypair, key: PublicKey = plan) =>
      errorOf(scene, [owner], deletePlan(owner.publicKey, key));
    t.equal(remove(scene.stranger), 504);
    t.equal(remove(merchant), 515);
    setTime(scene, START + PERIOD);
    t.equal(remove(merchant), 515, 'the end itself still belongs to the plan');
    setTime(scene, START + PERIOD + 1n);
    const before = lamportsOf(scene, merchant.publicKey) + lamportsOf(scene, plan);
    t.equal(remove(merchant), undefined);
    t.equal(lamportsOf(scene, merchant.publicKey), before - 5000n);
    t.equal(dataOf(scene, plan), undefined);
    t.equal(remove(merchant), 'InvalidAccountOwner');
    const endless = setScene();
    setTime(endless, START + 1000n * PERIOD);
    t.equal(
      errorOf(endless, [endless.merchant], deletePlan(endless.merchant.publicKey, endless.plan)),
      515,
    );
  },
);

void t.test(
  'a deleted plan can be created again, even in the same transaction, and counts as another plan',
  async (t) => {
    const scene = setScene({ endTs: START + PERIOD });
    const { merchant, plan } = scene;
    setTime(scene, START + PERIOD + 1n);
    const again = createPlan(scene, merchant.publicKey, {
      planId: 1n,
      amount: AMOUNT,
      periodHours: 24n,
    });
    must(scene, [merchant], deletePlan(merchant.publicKey, plan), again);
    t.equal(readPlan(scene, plan)?.createdAt, now(scene));
    const late = newHolder(scene, AMOUNT);
    const stale = subscribe(scene, late.publicKey, scene.consent);
    t.equal(errorOf(scene, [late], initAuthority(scene, late.publicKey), stale), 519);
  },
);
