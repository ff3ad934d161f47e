// What lifts a forced end: a checkout link that the merchant has created after the end, for this
// customer. Not one from before the end, although the end waited for a lock meanwhile, and not one
// for an id that the wallet has given itself.
import { setTimeout as pause } from 'node:timers/promises';
import t from 'tap';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, post } from '../fixtures/shown-terms.ts';

void t.test(
  'a link that was created while the forced cancellation waits for a lock does not lift the end',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const first = await buyer.buy();
    await stage.quiet();
    await keeper.stop();
    const path = `${merchant.path}/subscriptions/${first.id}/cancel`;
    const force = () =>
      stage.api.call('POST', path, { token: merchant.token, body: { mode: 'force' } });
    let forcing: ReturnType<typeof force> | undefined;
    await stage.sql.begin(async (tx) => {
      await tx`select from subscriptions where id = ${first.id} for update`;
      forcing = force();
      await pause(500);
      await merchant.session({ subscriberWallet: buyer.wallet });
      await pause(100);
    });
    t.equal((await forcing)?.status, 200);
    const [order] = await stage.sql<{ before: boolean }[]>`
    select c.created_at < s.stopped_at as before from checkout_sessions c, subscriptions s`;
    t.same(order, { before: true }, 'the link is older than the end');
    const standing = await buyer.get(`plans/${plan.id}/standing`);
    t.match(standing.body.data, { endedByMerchant: true });
    t.equal((await buyer.register(first.pda)).status, 409);
  },
);

void t.test(
  'a link for an id that the wallet has set itself does not lift its forced cancellation',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    await merchant.patch({ ownIdsBySubscriber: true });
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const pda = await buyer.subscribe();
    await keeper.stop();
    const { status, body } = await post(buyer, pda, { externalId: 'bob' });
    t.equal(status, 201);
    const path = `${merchant.path}/subscriptions/${body.data.id}/cancel`;
    await stage.api.call('POST', path, { token: merchant.token, body: { mode: 'force' } });
    const barred = async () =>
      (await buyer.get(`plans/${plan.id}/standing`)).body.data.endedByMerchant;
    t.equal(await barred(), true);
    await merchant.session({ externalId: 'bob' });
    t.equal(await barred(), true, 'the link is for another customer');
  },
);
