// A wallet opens an account and cancels it in one transaction, so that no keeper registers it. Hours
// later a change of plan resumes that account: it takes over what is unused when it lands, not what
// was unused when the account was opened.
import t from 'tap';
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
import { type Offer, paid, rowsOf } from '../fixtures/shown-terms.ts';

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

for (const hours of [24, 1])
  void t.test(`the credit is the one that was shown, of a plan of ${hours} hours`, async (t) => {
    const scene = await startPlanChanges(t, [
      { amount: 5, hours },
      { amount: 25, hours: 24 },
    ]);
    const { stage, buyer, ask, registered, newest } = scene;
    const [, large] = scene.plans as [Plan, Plan];
    await stage.startKeeper();
    const first = await buyer.buy();
    const payments = (count: number) =>
      stage.until(`${count} are paid`, async () => (await paid(stage, buyer)).length === count);
    await payments(1);
    await stage.quiet();
    t.equal((await buyer.post(`plans/${large.id}/subscribe`)).status, 200, 'it signs nothing');
    await openAndCancel(stage, buyer, large);
    for (let hour = 1; hour <= 12; hour += 1) {
      stage.passHours(1);
      if (hours === 1) await payments(1 + hour);
    }
    await stage.quiet();
    const shown = (await ask(first, large)) as unknown as Offer & { credit: string };
    await stage.land(buyer.keypair, shown.transaction);
    await registered(first, large);
    const { id } = await newest(large);
    const [event] = await stage.sql<{ body: string }[]>`
      select body from events where subscription_id = ${id} and type = 'subscription_created'`;
    const { credit } = (JSON.parse(event!.body) as { data: { credit: string } }).data;
    t.match((await rowsOf(stage, buyer)).at(-1), { id, replaces: first.id });
    t.ok(BigInt(credit) <= BigInt(shown.credit), `credit ${credit}, shown ${shown.credit}`);
  });
