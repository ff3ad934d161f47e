// A sponsored sign-up has landed and is not final. Its wallet cancels the account, and resumes it in
// a checkout with a discount: the service offers that, so what it shows has to hold.
import t from 'tap';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { startSponsorStage } from '../fixtures/sponsor-stage.ts';
import { merchantOf, type Offer } from '../fixtures/shown-terms.ts';

void t.test('resumed by another offer before the sign-up is settled', async (t) => {
  const stage = await startSponsorStage(t, { blockMs: 0 });
  stage.net.mineBlocks(20);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  stage.net.fund(plan.merchant.address, { usdc: 1n });
  stage.net.mineBlocks(2);
  const merchant = await merchantOf(stage, plan);
  const wallet = stage.poor(50_000_000n);
  const offer = await stage.offer(plan, wallet);
  await stage.sign(offer, wallet);
  const { sponsor } = stage.sponsor();
  await sponsor.turn(true);
  stage.net.mineBlocks(3);
  stage.net.fund(wallet.address, { lamports: 1_000_000_000n });
  stage.net.mineBlocks(2);
  const { subscriptionPda } = offer;
  const of = { subscriber: wallet.address, plan: plan.pda, subscription: subscriptionPda };
  await stage.send([wallet], cancelInstructions(stage.net.programId, of));
  const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
  const { token } = await stage.api.signIn('subscriber', wallet);
  const answer = await stage.api.call<Offer>('POST', `/subscriber/plans/${plan.id}/subscribe`, {
    token,
    body: { checkoutSessionId: session.id },
  });
  if (answer.status === 200) await stage.land(wallet, answer.body.data.transaction);
  stage.net.mineBlocks(40);
  await sponsor.turn(true);
  const rows = await stage.sql<{ discountPercent: number | null; externalId: string | null }[]>`
    select discount_percent, external_id from subscriptions`;
  t.equal(rows.length, 1);
  t.comment(JSON.stringify({ status: answer.status, rows, session: await merchant.read(session) }));
  if (answer.status === 200)
    t.match(rows, [{ discountPercent: 50, externalId: 'alice' }], 'the newest landing decides');
});
