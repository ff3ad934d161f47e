// Which of the offers to a wallet decides whether a landed transaction is a change of plan.
import t from 'tap';
import { type ChangeWhen, repeatSignedOffer } from '../../../src/db/offered-transactions.ts';
import { offeredChange } from '../../../src/domain/subscribing/offered-change.ts';
import { offerTransaction } from '../../../src/domain/subscribing/relay.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertMerchant, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

void t.test('only a change of plan that the wallet confirmed is a change', async (t) => {
  const { sql } = await testDatabase(t, { max: 2 });
  const merchant = await insertMerchant(sql);
  const parties = { appId: merchant.appId, planId: await insertPlan(sql, merchant) };
  const planId = await insertPlan(sql, merchant);
  const unsigned = {
    ...{ transaction: '', blockhash: randomAddress() },
    ...{ lastValidBlockHeight: 1n, slot: 1n },
  };
  const buyer = async () => {
    const [wallet, subscriptionPda] = [randomAddress(), randomAddress()];
    const replaces = await insertSubscription(sql, parties, { subscriberWallet: wallet });
    const what = { wallet, purpose: 'subscribe', planId, subscriptionPda } as const;
    return {
      plain: () => offerTransaction(sql, unsigned, what),
      change: (changeWhen: ChangeWhen) =>
        offerTransaction(sql, unsigned, { ...what, replaces, changeWhen }),
      found: async () => {
        const change = await offeredChange(sql, { wallet, subscriptionPda });
        return change && [change.row.id === replaces, change.when];
      },
    };
  };
  const stranger = await buyer();

  const declines = await buyer();
  const declined = await declines.change('now');
  await stranger.plain();
  t.same(await declines.found(), [true, 'now']);
  await declines.plain();
  t.equal(await declines.found(), undefined, 'declined, and then bought without a change');
  await declines.change('period_end');
  t.same(await declines.found(), [true, 'period_end'], 'the newest offer decides');

  // The wallet signs an older offer than the newest, and the relay sends it.
  await repeatSignedOffer(sql, declined.offerId);
  t.same(await declines.found(), [true, 'now'], 'the signed one');
  const plain = await declines.plain();
  await declines.change('now');
  await repeatSignedOffer(sql, plain.offerId);
  t.equal(await declines.found(), undefined, 'signed without a change');
  const count = async () => (await sql`select 1 from offered_transactions`).length;
  const before = await count();
  await repeatSignedOffer(sql, plain.offerId);
  t.equal(await count(), before, 'handed over twice, stored once');
  t.equal(await stranger.found(), undefined);
});
