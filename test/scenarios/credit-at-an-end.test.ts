// A credit at an end: it is the customer's, so that the next registration spends it, whoever ended
// the subscription, and the time that a credit has paid is not charged again.
import t, { type Test } from 'tap';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

const [LARGE, SMALL] = [100_000_000n, 10_000_000n];
const HOURS = 720;

/** A wallet that has changed from a dear plan to a cheap one. */
async function changed(t: Test, when: 'now' | 'period_end', price = 10) {
  const scene = await startPlanChanges(t, [100, price]);
  const [large, small] = scene.plans as [Plan, Plan];
  const keeper = await scene.stage.startKeeper();
  const first = await scene.buyer.buy();
  await scene.stage.quiet();
  return { ...scene, keeper, large, first, second: await scene.change(first, small, when) };
}

void t.test(
  'after two forced cancellations the credit and the time that it paid remain',
  async (t) => {
    const { stage, buyer, large, second, act, read, register, change, first } = await changed(
      t,
      'now',
    );
    const { credit, paidThrough } = await read(second);
    t.ok(credit > 80_000_000n, 'the change leaves a credit');
    const changes = await stage.sql<{ body: string }[]>`
      select body from events where type = 'credit_changed'`;
    t.equal(changes.length, 1, 'of which an event tells, but of no spending');
    const made = String(credit + SMALL);
    t.match(JSON.parse(changes[0]!.body), {
      data: { amount: made, balance: made, reason: 'change_of_plan', wallet: buyer.wallet },
    });
    const before = await stage.balance(buyer.wallet);
    let last = second;
    for (const turn of ['once', 'twice']) {
      t.equal((await act(last.id, 'cancel', { mode: 'force' })).status, 200);
      t.equal((await act(last.id, 'reinstate')).status, 200);
      stage.passHours(24);
      const standing = await buyer.get(`plans/${last.plan.id}/standing`);
      t.match(
        standing.body.data,
        { usdcNeeded: '0', schedule: [{ amount: '0', creditSpent: String(SMALL) }] },
        'the page of the plan shows that nothing is paid',
      );
      const { status, body } = await register(last);
      t.equal(status, 201, turn);
      t.match(body.data, { credit: String(credit), paidThrough: paidThrough?.toISOString() });
      await stage.quiet();
      const next = { ...last, id: body.data.id };
      t.match(
        await read(last),
        { status: 'cancelled', credit },
        'it is the credit of the customer',
      );
      t.match(await read(next), { status: 'active', credit, paidThrough });
      const [created] = await stage.events(next);
      t.match(created, { type: 'subscription_created', data: { credit: String(credit) } });
      last = next;
    }
    t.equal(await stage.balance(buyer.wallet), before, 'nothing is charged again');
    t.same(await stage.payments(last), [], 'and no payment is booked again');
    t.same(await listCreditFaults(stage.sql), []);

    stage.passHours(HOURS - 24);
    await stage.quiet();
    t.match(
      await stage.payments(last),
      [{ source: 'credit', creditSpent: SMALL }],
      'the next period',
    );

    // Time that the credit paid for becomes credit again in a change of plan.
    const back = await change(last, large);
    const [{ worth }] = await stage.sql<[{ worth: bigint }]>`
    select sum(amount)::int8 as worth from credit_notes
    where reason = 'change_of_plan' and subscription_pda = ${last.pda}`;
    const [paid] = await stage.payments(back);
    t.equal(LARGE - paid!.amountGross, credit - SMALL + worth, 'credit left and unused part');
    t.same(await listCreditFaults(stage.sql), []);
    t.equal((await stage.payments(first)).length, 1);
  },
);

void t.test(
  'after any other end, a new registration of the account gets the credit back',
  async (t) => {
    const { stage, second, act, read, register } = await changed(t, 'now');
    t.equal((await act(second.id, 'cancel', { mode: 'period_end' })).status, 200);
    stage.passHours(HOURS + 1);
    await stage.until('it has ended', async () => (await read(second)).status === 'cancelled');
    const { credit } = await read(second);
    const finalized = (await stage.events(second)).find(({ type }) => type === 'cancel_finalized');
    t.equal(finalized?.data.credit, String(credit), 'the event names what is left');
    const { status, body } = await register(second);
    t.equal(status, 201);
    await stage.quiet();
    const third = { ...second, id: body.data.id };
    const [paid] = await stage.payments(third);
    t.match(paid, { source: 'credit', amountGross: 0n }, 'the credit pays the running period');
    for (const one of [second, third])
      t.match(await read(one), { credit: credit - paid!.creditSpent });
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test('a deferred start remains deferred after a forced cancellation', async (t) => {
  const { stage, buyer, first, second, act, read, register } = await changed(t, 'period_end');
  const { startsAt } = await read(second);
  t.ok(startsAt !== null);
  const before = await stage.balance(buyer.wallet);
  t.equal((await act(second.id, 'cancel', { mode: 'force' })).status, 200);
  t.equal((await act(second.id, 'reinstate')).status, 200);
  stage.passHours(24);
  const { status, body } = await register(second);
  t.equal(status, 201);
  t.equal(body.data.nextPaymentDue, startsAt?.toISOString());
  await stage.quiet();
  const third = { ...second, id: body.data.id };
  t.equal(await stage.balance(buyer.wallet), before, 'the paid time is not charged');
  t.match(await read(third), { startsAt, replaces: first.id }, 'it stands for the replaced one');
});

void t.test(
  'credit that a signed payment spends comes back once the payment is known to be dead',
  async (t) => {
    const { stage, keeper, second, act, read, register } = await changed(t, 'now', 95);
    await keeper.stop();
    const { credit } = await read(second);
    stage.passHours(HOURS);
    const { collect, taken } = stage.parts();
    await collect();
    t.match(taken, { length: 1 }, 'a payment is signed that spends the credit');
    t.equal((await act(second.id, 'cancel', { mode: 'force' })).status, 200);
    t.equal((await act(second.id, 'reinstate')).status, 200);
    const spent = credit - (await read(second)).credit;
    t.ok(spent > 0n, 'it is spent with the signature');
    stage.net.mineBlocks(200);
    await stage.startKeeper();
    await stage.until('the payment is known to be dead', async () => {
      const [row] = await stage.sql`select 1 from payment_attempts where state = 'open'`;
      return row === undefined;
    });
    t.match(await read(second), { credit });
    const { status, body } = await register(second);
    t.match({ status, body }, { status: 201, body: { data: { credit: String(credit) } } });
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'after a change back and a forced cancellation before a read, the credit pays the rest of the period',
  async (t) => {
    const { stage, keeper, buyer, large, first, second, ask, ...scene } = await changed(
      t,
      'now',
      90,
    );
    await keeper.stop();
    await stage.land(buyer.keypair, (await ask(second, large)).transaction);
    const { status, body } = await scene.register(first);
    t.equal(status, 201);
    await scene.forceAndReinstate(body.data);
    t.equal((await scene.register(first)).status, 201);
    await stage.startKeeper();
    await stage.quiet();
    const last = await scene.newest(large);
    t.match(await scene.read(last), { replaces: second.id, status: 'active' });
    const [paid] = await stage.payments(last);
    t.match(paid, { source: 'credit' }, 'the credit pays the rest of the period');
    const access = await buyer.get<{ accessUntil: string | null }>(`subscriptions/${last.id}`);
    t.ok(access.body.data.accessUntil !== null, 'which gives access');
    t.same(await listCreditFaults(stage.sql), []);
  },
);
