// A credit paid a period, and a change of plan took the rest of it as a credit again: nothing was
// pulled, so the wallet that comes back in this period pays the rest of it, with its credit and
// with cash, and this is an ordinary payment.
import t from 'tap';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

void t.test(
  'a wallet that changes back to a credited period pays the rest of it with its credit and with cash',
  async (t) => {
    const { stage, plans, buyer, ask, change, read } = await startPlanChanges(t, [
      100,
      50,
      { amount: 110, hours: 168 },
    ]);
    const [, a, b] = plans as [Plan, Plan, Plan];
    await stage.startKeeper();
    const bought = await buyer.buy();
    await stage.quiet();
    const second = await change(await change(bought, a), b);
    stage.passHours(166);
    await stage.quiet();
    const { today } = await ask(second, a);
    const back = await change(second, a);
    t.equal((await read(back)).credit, 0n, 'the credit is spent');
    const [payment, ...others] = await stage.payments(back);
    t.same(others, []);
    t.match(payment, { source: 'keeper', further: false });
    t.ok(payment!.creditSpent > 0n && payment!.amountGross > BigInt(today) - 1000n);
    const [paid] = (await stage.events(back)).filter(({ type }) => type === 'payment_success');
    t.match(paid, { data: { creditSpent: String(payment!.creditSpent) } });
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a resumed account whose period became credit is registered with its own payment',
  async (t) => {
    const { stage, plans, buyer, change, resume, registerAgain } = await startPlanChanges(
      t,
      [100, 40, 300],
    );
    const [, a, b] = plans as [Plan, Plan, Plan];
    await stage.startKeeper();
    const bought = await buyer.buy();
    await stage.quiet();
    const first = await change(bought, a);
    await change(first, b);
    await resume(first);
    const again = await registerAgain(first);
    t.match(await stage.payments(again), [{ source: 'keeper', further: false }]);
    t.ok((await stage.events(again)).some(({ type }) => type === 'payment_success'));
    t.same(await listCreditFaults(stage.sql), []);
  },
);

void t.test(
  'a pull by the plan’s owner in a credited period is recorded as a further payment of its registration',
  async (t) => {
    const { stage, plans, buyer, change, resume } = await startPlanChanges(t, [100, 40, 300]);
    const [, a, b] = plans as [Plan, Plan, Plan];
    await stage.startKeeper();
    const bought = await buyer.buy();
    await stage.quiet();
    const first = await change(bought, a);
    await change(first, b);
    await resume(first);
    const { merchant } = a;
    stage.net.fund(merchant.address, { usdc: 1n });
    const pull = transferSubscription(stage.net.programId, {
      ...{ subscriber: buyer.wallet, plan: a.pda, subscription: first.pda },
      ...{ caller: merchant.address, receiver: merchant.address },
      ...{ mint: stage.net.mint, amount: 1_000_000n },
    });
    await stage.send([merchant], [pull]);
    await stage.until('the pull is booked', async () => (await stage.payments(first)).length === 2);
    t.match(await stage.payments(first), [
      { source: 'credit' },
      { source: 'foreign', further: true },
    ]);
    t.same(await listCreditFaults(stage.sql), []);
  },
);
