// A change of plan at half the price, whose checkout has expired hours ago unsigned. The wallet puts
// a new blockhash into the old transaction and sends it itself.
import bs58 from 'bs58';
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, type Offer, paid, rowsOf } from '../fixtures/shown-terms.ts';

void t.test('an expired discount is not given for what landed after its end', async (t) => {
  const scene = await startPlanChanges(t, [5, 25]);
  const { stage, buyer } = scene;
  const [small, large] = scene.plans as [Plan, Plan];
  const merchant = await merchantOf(stage, { ...large, merchant: small.merchant });
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  await stage.quiet();
  const session = await merchant.session({
    ...{ replaces: first.id, changeWhen: 'now', discount: { percentOff: 50 } },
  });
  const { body } = await buyer.post<Offer>(`plans/${large.id}/subscribe`, {
    checkoutSessionId: session.id,
  });
  const { offerId, transaction } = body.data;
  await stage.sql`
    update checkout_sessions set created_at = created_at - interval '26 hours',
      expires_at = expires_at - interval '26 hours'`;
  await stage.sql`update offers set created_at = created_at - interval '3 hours'`;
  const [{ blockhash: offered }] = await stage.sql<[{ blockhash: string }]>`
    select blockhash from offers where id = ${offerId}`;
  stage.net.mineBlocks(200);
  const { blockhash } = await stage.rpc.getLatestBlockhash();
  const bytes = Buffer.from(transaction, 'base64');
  bytes.set(bs58.decode(blockhash), bytes.indexOf(bs58.decode(offered)));
  await stage.land(buyer.keypair, bytes.toString('base64'));
  await stage.until(
    'it is registered or listed',
    async () =>
      (await rowsOf(stage, buyer)).length === 2 || (await merchant.unregistered()).length > 0,
  );
  await stage.quiet();
  const [, row] = await rowsOf(stage, buyer);
  t.equal(row?.discountPercent ?? null, null, 'the checkout has expired');
});
