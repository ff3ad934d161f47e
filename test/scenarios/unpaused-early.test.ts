// A pause that ends before the first payment may be collected: in the two minutes in which
// registerUnclaimed waits for the wallet, and before a deferred start.
import t from 'tap';
import { startApiStage } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import { merchantOf, paid, post, registered, rowsOf } from '../fixtures/shown-terms.ts';

/** A registration without an offer, whose keeper waits for the wallet. */
async function waiting(t: Parameters<typeof startApiStage>[0]) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  await merchant.patch({ registerUnclaimed: true });
  await stage.startKeeper();
  const buyer = await stage.buyer(plan);
  const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
  const pda = await stage.open(plan, buyer.keypair);
  await registered(stage, buyer);
  await stage.quiet();
  const [row] = await rowsOf(stage, buyer);
  const act = async (verb: string) => {
    const path = `${merchant.path}/subscriptions/${row!.id}/${verb}`;
    const { status, body } = await stage.api.call<{ nextPaymentDue: string | null }>('POST', path, {
      token: merchant.token,
    });
    t.equal(status, 200, JSON.stringify(body));
    return body.data;
  };
  const attempts = async () => (await stage.sql`select 1 from payment_attempts`).length;
  const claims = async () => {
    const answer = await post(buyer, pda, { checkoutSessionId: session.id });
    t.equal(answer.status, 201, JSON.stringify(answer.body));
  };
  const isPaid = () =>
    stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
  return { stage, buyer, waitsUntil: row!.nextPaymentDue!, act, attempts, claims, isPaid };
}

void t.test(
  'a pause does not shorten the two minutes that a keeper waits for the wallet',
  async (t) => {
    const { stage, buyer, waitsUntil, act, attempts, claims, isPaid } = await waiting(t);
    await act('pause');
    t.match(await act('unpause'), { nextPaymentDue: waitsUntil.toISOString() });
    await stage.quiet();
    t.equal(await attempts(), 0);
    await claims();
    await isPaid();
    const [amount] = await paid(stage, buyer);
    t.ok(amount! <= 2_500_000n, String(amount));
  },
);

void t.test('a wallet that registers during a pause ends the two minutes of waiting', async (t) => {
  const { stage, buyer, waitsUntil, act, attempts, claims, isPaid } = await waiting(t);
  await act('pause');
  await claims();
  t.equal(await attempts(), 0, 'it is paused');
  const { nextPaymentDue } = await act('unpause');
  t.ok(new Date(nextPaymentDue!) < waitsUntil);
  await isPaid();
  const [amount] = await paid(stage, buyer);
  t.ok(amount! <= 2_500_000n, String(amount));
});

void t.test(
  'a first payment is collected when its pause outlasts the two minutes of waiting',
  async (t) => {
    const { stage, act, isPaid } = await waiting(t);
    await act('pause');
    stage.net.passSeconds(200);
    await act('unpause');
    await isPaid();
  },
);

void t.test('a pause does not shorten the wait for a deferred start', async (t) => {
  const { stage, plans, buyer, change, act, read } = await startPlanChanges(t, [5, 25]);
  const [, large] = plans as [Plan, Plan];
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const second = await change(first, large, 'period_end');
  const before = await buyer.get<{ nextAmount: string }>(`subscriptions/${second.id}`);
  const startsAt = (await read(second)).startsAt!.toISOString();
  t.equal((await act(second.id, 'pause')).status, 200);
  const { nextAmount } = before.body.data;
  t.match((await act(second.id, 'unpause')).body.data, { nextPaymentDue: startsAt, nextAmount });
  const events = await stage.events(second);
  const event = events.find(({ type }) => type === 'subscription_unpaused');
  t.equal(event?.data.nextPaymentDue, startsAt);
  const balance = await stage.balance(buyer.wallet);
  await stage.quiet();
  t.equal(await stage.balance(buyer.wallet), balance);
});
