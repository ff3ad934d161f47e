// A keeper that has registered an account without an offer waits two minutes for its wallet, also
// if the wallet cancels and resumes the account meanwhile.
import t from 'tap';
import {
  cancelInstructions,
  resumeInstructions,
} from '../../src/chain/transactions/subscriptions.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, paid, post, registered, rowsOf } from '../fixtures/shown-terms.ts';

void t.test('cancelled while a change of plan is offered, and resumed', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const { merchant: owner } = plan;
  const dearer = await stage.plan({ amount: 25_000_000n, periodHours: 720, merchant: owner });
  await stage.sql`update plans set app_id = ${plan.appId} where id = ${dearer.id}`;
  const merchant = await merchantOf(stage, plan);
  await merchant.patch({ registerUnclaimed: true });
  const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
  await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const pda = await stage.open(plan, buyer.keypair);
  await registered(stage, buyer);
  await stage.quiet();
  const [row] = await rowsOf(stage, buyer);
  const due = row!.nextPaymentDue!;
  const change = { planId: dearer.id, when: 'now' };
  t.equal((await buyer.post(`subscriptions/${row!.id}/change`, change)).status, 200);
  const { programId, mint } = stage.net;
  const of = { subscriber: buyer.wallet, plan: plan.pda, subscription: pda };
  await stage.send([buyer.keypair], cancelInstructions(programId, of));
  const subscription = { id: row!.id, pda, wallet: buyer.keypair, plan };
  await stage.until(
    'its cancellation is seen',
    async () => (await stage.row(subscription)).cancelRequestedAt !== null,
  );
  const { expiresAt } = (await stage.onChain(subscription))!;
  await stage.send([buyer.keypair], resumeInstructions(programId, { ...of, mint, expiresAt }));
  await stage.until(
    'its resumption is seen',
    async () => (await stage.row(subscription)).cancelRequestedAt === null,
  );
  await stage.quiet();
  t.ok(stage.now() * 1000 < due.getTime(), 'the two minutes are not over');
  t.same(await paid(stage, buyer), [], 'no attempt is committed');
  t.equal((await post(buyer, pda, { checkoutSessionId: session.id })).status, 201);
});
