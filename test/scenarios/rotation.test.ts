// A rotation of the keeper's key while payments fall due: every period is paid once, with its fee,
// and old payments count as the keeper's.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import bs58 from 'bs58';
import t, { type Test } from 'tap';
import nacl from 'tweetnacl';
import { keypairFromSecret } from '../../src/chain/keypair.ts';
import { planIn } from '../../src/chain/program/accounts.ts';
import { updatePlan } from '../../src/chain/program/plan-instructions.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import { HOUR, type Plan, startStage, type Stage, type Subscription } from '../fixtures/billing.ts';

const PERIOD_HOURS = 24;

/** A new keypair with SOL, and its file. */
async function newKey(t: Test, stage: Stage) {
  const directory = await mkdtemp(join(tmpdir(), 'billing-rotation-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const secret = nacl.sign.keyPair().secretKey;
  const file = join(directory, 'next.json');
  await writeFile(file, JSON.stringify([...secret]), { mode: 0o600 });
  const keypair = keypairFromSecret(secret);
  stage.net.fund(keypair.address, { lamports: 100_000_000_000n });
  return { keypair, file };
}

/** The merchant changes the pullers of its plan. */
async function setPullers(stage: Stage, plan: Plan, pullers: string[]) {
  const { accounts } = await stage.rpc.getMultipleAccounts([plan.pda]);
  const seen = planIn(accounts[0] ?? null, stage.net.programId)!;
  const { status, endTs, metadataUri } = seen;
  const edit = { status, endTs, metadataUri, pullers };
  const parties = { owner: plan.merchant.address, plan: plan.pda };
  await stage.send([plan.merchant], [updatePlan(stage.net.programId, { ...parties, edit, seen })]);
}

/** The number of payments of a period by puller. */
async function pullers(stage: Stage, subscriptions: readonly Subscription[], period: number) {
  const counts = new Map<string, number>();
  for (const subscription of subscriptions) {
    const { txSignature } = (await stage.payments(subscription))[period]!;
    const found = await stage.rpc.getTransaction(txSignature!);
    // The caller is the sixth account of a pull.
    const pull = 'unreadable' in found ? undefined : found.instructions.at(-2);
    const puller = pull?.accounts[5] ?? 'unknown';
    counts.set(puller, (counts.get(puller) ?? 0) + 1);
  }
  return Object.fromEntries(counts);
}

void t.test('a key rotation under load loses no subscription and pays none twice', async (t) => {
  const stage = await startStage(t);
  const old = stage.keeper;
  const next = await newKey(t, stage);
  const [oldFile] = stage.config.keeperKeypairs!;
  const plans = [
    await stage.plan({ periodHours: PERIOD_HOURS }),
    await stage.plan({ periodHours: PERIOD_HOURS }),
  ];
  const subscriptions: Subscription[] = [];
  for (const plan of plans)
    for (let made = 0; made < 6; made += 1) subscriptions.push(await stage.subscriber(plan));
  const paid = (count: number) =>
    stage.until(
      `each has ${count} payments`,
      async () => (await stage.sql`select 1 from payments`).length === count * subscriptions.length,
    );
  const pass = () => stage.net.passSeconds(PERIOD_HOURS * HOUR);

  const before = await stage.startKeeper();
  await paid(1);
  // Step 1: every keeper holds both keys, the new one first. No plan names it yet.
  const addresses = [next.keypair.address, old.address];
  const both = {
    keeperKeypairs: [next.file, oldFile!],
    keeperAddresses: addresses,
    treasuries: [stage.treasury.address],
  };
  pass();
  await stage.startKeeper(both);
  await before.stop();
  await paid(2);
  t.same(await pullers(stage, subscriptions, 1), { [old.address]: subscriptions.length });

  // Step 2: one merchant signs the new pullers while payments fall due, the other one later.
  pass();
  await setPullers(stage, plans[0]!, addresses);
  await paid(3);
  await stage.quiet();
  pass();
  await paid(4);
  t.same(await pullers(stage, subscriptions, 3), {
    [next.keypair.address]: 6,
    [old.address]: 6,
  });
  await setPullers(stage, plans[1]!, [next.keypair.address]);
  pass();
  await paid(5);
  await stage.quiet();
  t.same(await pullers(stage, subscriptions, 4), {
    [next.keypair.address]: subscriptions.length,
  });

  for (const subscription of subscriptions) {
    const payments = await stage.payments(subscription);
    t.same(
      payments.map(({ status, source, platformFee, amountNet }) => [
        status,
        source,
        platformFee,
        amountNet,
      ]),
      Array.from({ length: 5 }, () => ['succeeded', 'keeper', 50_000n, 4_950_000n]),
    );
    t.equal(new Set(payments.map(({ periodStart }) => periodStart.getTime())).size, 5);
  }
  t.equal(await stage.balance(stage.treasury.address), 1n + 50_000n * 5n * 12n);
  stage.net.mineBlocks(40);
  const { differences } = await reconcile(
    { sql: stage.sql, rpc: stage.rpc, programId: stage.net.programId, keepers: addresses },
    {
      since: new Date((stage.now() - 30 * 24 * HOUR) * 1000),
      until: new Date((stage.now() + HOUR) * 1000),
      repair: false,
    },
  );
  t.same(differences, []);
});

void t.test(
  'a former key without SOL signs nothing, and plans with the new key are collected',
  async (t) => {
    const stage = await startStage(t, { blockMs: 0 });
    const next = await newKey(t, stage);
    const [oldFile] = stage.config.keeperKeypairs!;
    const refill = async (lamports: number) => {
      await stage.net.rpc('surfnet_setAccount', stage.keeper.address, { lamports });
      stage.net.mineBlocks();
    };
    const [former, both] = [
      await stage.plan(),
      await stage.plan({ pullers: [stage.keeper.address, next.keypair.address] }),
    ];
    const waiting = await stage.subscriber(former);
    const paid = await stage.subscriber(both);
    await refill(1_000_000);
    const keeper = await stage.startKeeper({
      keeperKeypairs: [next.file, oldFile!],
      keeperAddresses: [next.keypair.address, stage.keeper.address],
    });
    await stage.until('it is put off', async () => (await stage.row(waiting)).setbacks > 0);
    await stage.until('the other is paid', async () => {
      stage.net.mineBlocks();
      return (await stage.payments(paid)).length === 1;
    });
    t.equal(await keeper.ready(), undefined);
    t.same(
      await stage.sql`select 1 from payment_attempts where subscription_id = ${waiting.id}`,
      [],
    );
    t.match(await stage.row(waiting), { status: 'active', failedAttempts: 0 });
    await refill(1_000_000_000);
    await stage.until('it is paid', async () => {
      stage.net.passSeconds(60);
      return (await stage.payments(waiting)).length === 1;
    });
    t.same(await pullers(stage, [waiting], 0), { [stage.keeper.address]: 1 });
    t.same(await stage.sql`select 1 from payment_attempts where state = 'expired'`, []);
  },
);

void t.test('the memo of a payment is a hash that reveals no id', async (t) => {
  const stage = await startStage(t);
  const subscription = await stage.subscriber(await stage.plan());
  await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(subscription)).length === 1);
  const txSignature = (await stage.payments(subscription))[0]!.txSignature!;
  const found = await stage.net.rpc<{
    transaction: { message: { instructions: { data: string }[] } };
  }>('getTransaction', txSignature, {
    encoding: 'json',
    maxSupportedTransactionVersion: 1,
    commitment: 'confirmed',
  });
  const { data } = found.transaction.message.instructions.at(-1)!;
  t.match(Buffer.from(bs58.decode(data)).toString(), /^billing [0-9a-f]{32}$/);
});
