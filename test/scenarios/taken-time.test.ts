// Time that a credit note takes back gives no access, whatever happens to its registration, until
// something else pays for it.
import t, { type Test } from 'tap';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

for (const when of ['period_end', 'now'] as const)
  void t.test(`time that became credit stays taken after a change of plan: ${when}`, async (t) => {
    const { stage, plans, buyer, change, resume, registerAgain, read, access } =
      await startPlanChanges(t, [100, 40, 60]);
    const [a, b, c] = plans as [Plan, Plan, Plan];
    await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    const second = await change(first, b);
    t.ok((await read(second)).credit > 50_000_000n, 'its rest is credit');
    await resume(first);
    const again = await registerAgain(first);
    const until = async () =>
      (await buyer.get<{ accessUntil: string | null }>(`subscriptions/${again.id}`)).body.data
        .accessUntil;
    t.equal(await until(), null, 'no access');
    stage.passHours(100);
    await stage.quiet();
    await change(again, c, when);
    t.equal(await until(), null, 'nor after the next change');
    const { accessUntil } = await access(a);
    t.ok(Date.parse(accessUntil!) < stage.net.now(), 'the grace of the first one is over');
  });

void t.test('the free rest of a period whose time became credit gives access', async (t) => {
  const week = { amount: 100, hours: 168 };
  const gifts = { usdc: 105_000_000n };
  const { stage, plans, buyer, change, access } = await startPlanChanges(t, [10, week], gifts);
  const [a, b] = plans as [Plan, Plan];
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  const second = await change(first, b);
  stage.passHours(169);
  await stage.until('past due', async () => (await stage.row(second)).status === 'past_due');
  await stage.quiet();
  await change(second, a);
  t.match(await access(a), { hasAccess: true, reason: 'paid' });
});

void t.test('a refund before a resume ends the access of a replaced registration', async (t) => {
  const { stage, plans, buyer, change, resume, registerAgain, access } = await startPlanChanges(
    t,
    [100, 1],
  );
  const [a, b] = plans as [Plan, Plan];
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await change(first, b, 'period_end');
  await stage.sql`
    update payments set amount_refunded = amount_net where subscription_id = ${first.id}`;
  await resume(first);
  await registerAgain(first);
  t.match(await access(a), { hasAccess: false });
});

/** A registration whose period the merchant has pulled himself, after the end of an earlier one. */
async function pulledAfterTheEnd(t: Test) {
  const scene = await startPlanChanges(t, [100, 50]);
  const { stage, plans, buyer, act, registerAgain } = scene;
  const [a] = plans as [Plan, Plan];
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  await act(first.id, 'cancel', { mode: 'force' });
  await stage.until('read', async () => (await stage.row(first)).dueAt === null);
  await stage.quiet();
  stage.passHours(721);
  const { merchant } = a;
  stage.net.fund(merchant.address, { usdc: 1n });
  const pull = transferSubscription(stage.net.programId, {
    ...{ subscriber: buyer.wallet, plan: a.pda, subscription: first.pda },
    ...{ caller: merchant.address, receiver: merchant.address },
    ...{ mint: stage.net.mint, amount: 60_000_000n },
  });
  await stage.send([merchant], [pull]);
  await stage.until('booked', async () => (await stage.payments(first)).length === 2);
  await stage.quiet();
  await act(first.id, 'reinstate');
  return { ...scene, first, again: await registerAgain(first) };
}

void t.test(
  'what another puller pulled for the running time is credit after a change',
  async (t) => {
    const { plans, again, change, read } = await pulledAfterTheEnd(t);
    const next = await change(again, plans[1]!);
    const { credit } = await read(next);
    t.ok(credit > 9_000_000n && credit < 10_000_000n, `60 less the 50 that are spent: ${credit}`);
  },
);

void t.test('its full refund before a resume ends the access', async (t) => {
  const { stage, buyer, first, again } = await pulledAfterTheEnd(t);
  await buyer.cancel(again);
  const cancelled = async () => (await stage.row(again)).cancelRequestedAt !== null;
  await stage.until('cancelled', cancelled);
  await stage.quiet();
  await stage.sql`
    update payments set amount_refunded = amount_net
    where subscription_id = ${first.id} and source = 'foreign'`;
  const { body } = await buyer.post<{ transaction: string }>(`subscriptions/${again.id}/resume`);
  await stage.land(buyer.keypair, body.data.transaction);
  await stage.until('resumed', async () => !(await cancelled()));
  await stage.quiet();
  const shown = await buyer.get<{ accessUntil: string | null }>(`subscriptions/${again.id}`);
  t.equal(shown.body.data.accessUntil, null);
});
