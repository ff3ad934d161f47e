// The relay refuses what asking for the transaction would refuse by now, and sends nothing: a
// change of plan cancels the old subscription on chain, whatever becomes of the new one. What has
// landed already is registered.
import t, { type Test } from 'tap';
import { addSignature } from '../../src/chain/transactions/message.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges, type ShownChange } from '../fixtures/plan-changes.ts';
import { merchantOf } from '../fixtures/shown-terms.ts';

void t.test(
  'the relay refuses a change of a subscription that another change has replaced',
  async (t) => {
    const { stage, plans, buyer, ask } = await startPlanChanges(t, [100, 150, 120]);
    const [, one, other] = plans as [Plan, Plan, Plan];
    await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await buyer.cancel(first);
    await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
    await stage.quiet();
    type Offered = ShownChange & { offerId: string };
    const offers: Offered[] = [];
    for (const to of [one, other]) offers.push((await ask(first, to)) as Offered);
    const relay = ({ offerId, transaction }: Offered) =>
      buyer.post<{ status: string }>('transactions', {
        offerId,
        transaction: addSignature(buyer.keypair, transaction),
      });
    t.match((await relay(offers[0]!)).body.data, { status: 'confirmed' });
    await stage.quiet();
    const before = await stage.balance(buyer.wallet);
    const second = await relay(offers[1]!);
    await stage.quiet();
    const charged = before - (await stage.balance(buyer.wallet));
    t.equal(second.status, 409);
    t.equal(charged, 0n, `shown was ${offers[1]!.today}`);
  },
);

void t.test('the relay sends no change to a plan that was sunset after the offer', async (t) => {
  const { stage, plans, buyer, ask, change, read } = await startPlanChanges(t, [100, 10, 20]);
  const [large, small, other] = plans as [Plan, Plan, Plan];
  const merchant = await merchantOf(stage, large);
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const second = await change(first, small);
  const { credit } = await read(second);
  t.ok(credit > 80_000_000n);
  const offer = (await ask(second, other)) as ShownChange & { offerId: string };
  const path = `${merchant.path}/plans/${other.id}`;
  const sunset = await stage.api.call('PATCH', path, {
    token: merchant.token,
    body: { status: 'sunset' },
  });
  t.equal(sunset.status, 200);
  const sent = await buyer.post('transactions', {
    offerId: offer.offerId,
    transaction: addSignature(buyer.keypair, offer.transaction),
  });
  await stage.quiet();
  t.equal(sent.status, 409, JSON.stringify(sent.body));
  t.equal((await stage.onChain(second))?.expiresAt, 0n, 'the old one goes on');
});

/** Two plans, a paid subscription of the small one, and an offer to change to the large one. */
async function offered(t: Test) {
  const scene = await startPlanChanges(t, [10, 100]);
  const { stage, plans, buyer, ask } = scene;
  const [small, large] = plans as [Plan, Plan];
  const merchant = await merchantOf(stage, small);
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const offer = (await ask(first, large)) as ShownChange & { offerId: string };
  const relay = ({ offerId, transaction } = offer) =>
    buyer.post('transactions', {
      offerId,
      transaction: addSignature(buyer.keypair, transaction),
    });
  const runs = async () => (await stage.onChain(first))?.expiresAt === 0n;
  return { ...scene, small, large, merchant, first, offer, relay, runs };
}

void t.test(
  'the relay sends no change that the merchant has ruled out since the offer',
  async (t) => {
    const { merchant, act, first, relay, runs } = await offered(t);
    await t.test(
      'the relay refuses an offered change after the merchant turned plan changes off',
      async (t) => {
        await merchant.patch({ planChanges: false });
        t.match(await relay(), { status: 409, body: { error: { message: /by a link only/ } } });
        await merchant.patch({ planChanges: true });
      },
    );
    await t.test(
      'the relay refuses an offered change after the merchant cancelled the subscription',
      async (t) => {
        t.equal((await act(first.id, 'cancel', { mode: 'period_end' })).status, 200);
        t.match(await relay(), {
          status: 409,
          body: { error: { message: /merchant has cancelled/ } },
        });
      },
    );
    t.ok(await runs(), 'the old one goes on');
  },
);

void t.test('the relay sends no resume after the merchant has cancelled', async (t) => {
  const { stage, buyer, act, first, relay } = await offered(t);
  await buyer.cancel(first);
  await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
  const { body } = await buyer.post<{ offerId: string; transaction: string }>(
    `subscriptions/${first.id}/resume`,
  );
  t.equal((await act(first.id, 'cancel', { mode: 'period_end' })).status, 200);
  t.match(await relay({ ...body.data, subscriptionPda: '', today: '', credit: '' }), {
    ...{ status: 409, body: { error: { message: /merchant has cancelled/ } } },
  });
  t.not((await stage.onChain(first))?.expiresAt, 0n, 'it stays cancelled on chain');
});

void t.test(
  'the relay accepts only one change of a cancelled subscription at a time',
  async (t) => {
    const { stage, buyer, ask, first, large, relay } = await offered(t);
    await buyer.cancel(first);
    await stage.until('cancelled', async () => (await stage.row(first)).cancelRequestedAt !== null);
    const again = (await ask(first, large, 'period_end')) as ShownChange & { offerId: string };
    await stage.net.rpc('localnet_setFault', { kind: 'drop', count: 1000 });
    const sending = relay(again);
    await stage.until('the relay has it', async () => {
      const rows = await stage.sql`select 1 from offers where signed_blockhash is not null`;
      return rows.length > 0;
    });
    t.match(await relay(), { status: 409, body: { error: { message: /may still land/ } } });
    stage.net.mineBlocks(200);
    t.match((await sending).body.data, { status: 'lapsed' });
  },
);

void t.test(
  'a keeper registers a landed change to a plan that was sunset since the offer',
  async (t) => {
    const { stage, merchant, large, first, offer, buyer, registered, relay, read, newest } =
      await offered(t);
    const path = `${merchant.path}/plans/${large.id}`;
    const { token } = merchant;
    const sunset = await stage.api.call('PATCH', path, { token, body: { status: 'sunset' } });
    t.equal(sunset.status, 200);
    await stage.land(buyer.keypair, offer.transaction);
    await registered(first, large);
    await stage.quiet();
    const { id } = await newest(large);
    t.match(await relay(), {
      ...{ status: 200, body: { data: { status: 'confirmed', subscription: { id } } } },
    });
    t.match(await read({ id }), { replaces: first.id, status: 'active' });
  },
);
