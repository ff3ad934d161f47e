// A wallet opens an account by an offer and cancels it, before anyone has registered it. Hours later
// a change of plan resumes that account: it takes over what is unused when it lands, not what was
// unused when the account was opened.
import t from 'tap';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { type Offer, paid, rowsOf } from '../fixtures/shown-terms.ts';

for (const hours of [24, 1])
  void t.test(`the credit is the one that was shown, of a plan of ${hours} hours`, async (t) => {
    const scene = await startPlanChanges(t, [
      { amount: 5, hours },
      { amount: 25, hours: 24 },
    ]);
    const { stage, buyer, ask, registered, newest } = scene;
    const [, large] = scene.plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    const payments = (count: number) =>
      stage.until(`${count} are paid`, async () => (await paid(stage, buyer)).length === count);
    await payments(1);
    await stage.quiet();
    await keeper.stop();
    const { body } = await buyer.post<Offer>(`plans/${large.id}/subscribe`);
    const { transaction, subscriptionPda } = body.data;
    await stage.land(buyer.keypair, transaction);
    const of = { subscriber: buyer.wallet, plan: large.pda, subscription: subscriptionPda };
    await stage.send([buyer.keypair], cancelInstructions(stage.net.programId, of));
    await stage.startKeeper();
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
