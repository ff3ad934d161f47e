// A change of plan is registered if its transaction has landed, and takes over what was unused when
// that landed.
import t, { type Test } from 'tap';
import {
  authorityAddress,
  planAddress,
  subscriptionAddress,
} from '../../src/chain/program/addresses.ts';
import { subscribe } from '../../src/chain/program/instructions.ts';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import type { ApiStage, Buyer } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, type Offer, paid, registered, rowsOf } from '../fixtures/shown-terms.ts';

interface Shown extends Offer {
  today: string;
  credit: string;
}

/** A subscription to the first plan, whose first payment is collected. */
async function subscribed(t: Test, prices: Parameters<typeof startPlanChanges>[1] = [5, 25]) {
  const scene = await startPlanChanges(t, prices);
  const { stage, buyer, ask } = scene;
  const [small, large] = scene.plans as [Plan, Plan];
  const keeper = await stage.startKeeper();
  const first = await buyer.buy();
  const payments = (count: number) =>
    stage.until(`${count} are paid`, async () => (await paid(stage, buyer)).length === count);
  await payments(1);
  await stage.quiet();
  const askChange = async () => (await ask(first, large)) as unknown as Shown;
  /** The wallet's own registration, which names the offer of the change. */
  const name = ({ subscriptionPda, offerId }: Shown) =>
    buyer.post('subscriptions', {
      ...{ appId: large.appId, planId: large.id, subscriptionPda, offerId },
    });
  return { ...scene, small, large, keeper, first, payments, askChange, name };
}

/** Opens an account and cancels it in one transaction, so that no keeper registers it. */
async function openAndCancel(stage: ApiStage, { wallet, keypair }: Buyer, plan: Plan) {
  const { programId, mint } = stage.net;
  const { planId, amount, periodHours } = plan.terms;
  const { accounts } = await stage.rpc.getMultipleAccounts([
    authorityAddress(programId, wallet, mint).address,
  ]);
  const initId = accounts[0]!.data.readBigInt64LE(98);
  const { address: merchant } = plan.merchant;
  const planBump = planAddress(programId, merchant, planId).bump;
  const terms = { planId, planBump, mint, amount, periodHours, createdAt: plan.createdAt, initId };
  const subscription = subscriptionAddress(programId, plan.pda, wallet).address;
  const parties = { subscriber: wallet, plan: plan.pda, subscription };
  await stage.send(
    [keypair],
    [
      subscribe(programId, { ...parties, merchant, terms }),
      ...cancelInstructions(programId, parties),
    ],
  );
}

for (const [by, isResumed] of [
  ['its wallet', false],
  ['its wallet', true],
  ['a keeper', false],
  ['a keeper', true],
] as const)
  void t.test(
    `a landed change of a cancelled subscription (resumed: ${isResumed}), registered by ${by}, costs what it showed`,
    async (t) => {
      const scene = await subscribed(t);
      const { stage, buyer, small, large, first, keeper, payments, askChange } = scene;
      const merchant = await merchantOf(stage, small);
      await merchant.patch({ registerUnclaimed: true });
      await buyer.cancel(first);
      await stage.until(
        'its cancellation is seen',
        async () => (await stage.row(first)).cancelRequestedAt !== null,
      );
      await stage.quiet();
      await keeper.stop();
      const before = await stage.balance(buyer.wallet);
      const shown = await askChange();
      await stage.land(buyer.keypair, shown.transaction);
      if (isResumed) await scene.resume(first);
      if (by !== 'a keeper') t.equal((await scene.name(shown)).status, 201);
      await stage.startKeeper();
      await registered(stage, buyer, 2);
      stage.net.passSeconds(130);
      await payments(2);
      const charged = before - (await stage.balance(buyer.wallet));
      t.match((await rowsOf(stage, buyer))[1], { planId: large.id, replaces: first.id });
      t.ok(charged <= BigInt(shown.today) + 1000n, `charged ${charged}, shown ${shown.today}`);
    },
  );

void t.test(
  'an account whose transaction has the blockhash of an unsigned change replaces no subscription',
  async (t) => {
    const { stage, buyer, large, first, keeper, payments, askChange } = await subscribed(t);
    await keeper.stop();
    const { chain } = stage.api.deps;
    const { getLatestBlockhash } = chain;
    const recent = await stage.rpc.getLatestBlockhash();
    chain.getLatestBlockhash = () => Promise.resolve(recent);
    await askChange();
    const { body } = await buyer.post<Offer>(`plans/${large.id}/subscribe`);
    chain.getLatestBlockhash = getLatestBlockhash;
    await stage.land(buyer.keypair, body.data.transaction);
    await buyer.cancel(first);
    await stage.startKeeper();
    await registered(stage, buyer, 2);
    await payments(2);
    t.match((await rowsOf(stage, buyer))[1], { planId: large.id, replaces: null });
    t.same((await paid(stage, buyer)).map(String), ['5000000', '25000000']);
  },
);

void t.test(
  'a change that did not land registers nothing, even if its wallet names it',
  async (t) => {
    const { stage, buyer, large, first, keeper, askChange, name } = await subscribed(t);
    await keeper.stop();
    const shown = await askChange();
    await stage.open(large, buyer.keypair);
    t.equal((await name(shown)).status, 409);
    t.match(await rowsOf(stage, buyer), [{ id: first.id, status: 'active' }]);
  },
);

for (const hours of [24, 1])
  void t.test(
    `a change that resumes an account gets no more credit than shown, with a plan of ${hours} hours`,
    async (t) => {
      const prices = [
        { amount: 5, hours },
        { amount: 25, hours: 24 },
      ];
      const scene = await subscribed(t, prices);
      const { stage, buyer, large, first, payments, askChange, newest } = scene;
      t.equal((await buyer.post(`plans/${large.id}/subscribe`)).status, 200, 'it signs nothing');
      await openAndCancel(stage, buyer, large);
      for (let hour = 1; hour <= 12; hour += 1) {
        stage.passHours(1);
        if (hours === 1) await payments(1 + hour);
      }
      await stage.quiet();
      const shown = await askChange();
      await stage.land(buyer.keypair, shown.transaction);
      await scene.registered(first, large);
      const { id } = await newest(large);
      t.match((await rowsOf(stage, buyer)).at(-1), { id, replaces: first.id });
      const credit = await creditOf(stage, id);
      t.ok(credit <= BigInt(shown.credit), `credit ${credit}, shown ${shown.credit}`);
    },
  );

void t.test(
  'a change whose account another client resumed gets only the credit at that resume',
  async (t) => {
    const prices = [
      { amount: 5, hours: 1 },
      { amount: 25, hours: 24 },
    ];
    const scene = await subscribed(t, prices);
    const { stage, buyer, large, first, keeper, payments, askChange, name } = scene;
    const shown = await askChange();
    await openAndCancel(stage, buyer, large);
    for (let hour = 1; hour <= 3; hour += 1) {
      stage.passHours(1);
      await payments(1 + hour);
    }
    await stage.quiet();
    await keeper.stop();
    const { subscriptionPda: pda } = shown;
    await scene.resume({ id: '', pda, wallet: buyer.keypair, plan: large });
    await buyer.cancel(first);
    t.equal((await name(shown)).status, 201);
    const credit = await creditOf(stage, (await scene.newest(large)).id);
    t.ok(credit <= 5_000_000n, `${credit} of one period`);
  },
);

/** The credit of subscription_created. */
async function creditOf(stage: ApiStage, id: string): Promise<bigint> {
  const [event] = await stage.sql<{ body: string }[]>`
    select body from events where subscription_id = ${id} and type = 'subscription_created'`;
  const { data } = JSON.parse(event!.body) as { data: { credit: string } };
  return BigInt(data.credit);
}
