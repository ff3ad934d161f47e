// The relay binds a checkout session to the wallet before it sends its transaction. A transaction
// that fails in its simulation does not keep the session open beyond its end.
import t from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, type Offer, offerOf } from '../fixtures/shown-terms.ts';

void t.test('a wallet without SOL relays in a session, and comes back days later', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  const session = await merchant.session({ discount: { percentOff: 90 } });
  const buyer = await stage.buyer(plan, { lamports: 0n });
  const { offerId, transaction } = await offerOf(buyer, { checkoutSessionId: session.id });
  const relayed = await buyer.post<{ status: string }>('transactions', {
    ...{ transaction: addSignature(buyer.keypair, transaction), offerId },
  });
  t.match(relayed.body.data, { status: 'failed' });
  await stage.sql`
    update checkout_sessions set created_at = created_at - interval '20 days',
      expires_at = expires_at - interval '20 days'`;
  await stage.sql`update offers set created_at = created_at - interval '20 days'`;
  stage.net.fund(buyer.wallet, { lamports: 1_000_000_000n });
  const later = await buyer.post<Offer>(`plans/${plan.id}/subscribe`, {
    checkoutSessionId: session.id,
  });
  t.equal(later.status, 409, 'the checkout has expired');
});
