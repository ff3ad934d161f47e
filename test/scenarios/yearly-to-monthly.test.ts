// A yearly plan of 120 USDC is changed to a monthly one of 12 after 30 days, and then cancelled
// (lago-api#1834, polar#7211): the rest of the year stays the customer's credit.
import t from 'tap';
import { listCreditFaults } from '../../src/db/operating/reconciliation.ts';
import type { Plan } from '../fixtures/billing.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

/** 335 of 365 days of 120 USDC, up to whole cents. */
const UNUSED = 110_140_000n;
const MONTH = 12_000_000n;

void t.test('the credit of a changed year outlives the monthly plan and pays for it', async (t) => {
  const yearly = { amount: 120, hours: 8760 };
  const { stage, plans, buyer, change, act, read, registerAgain } = await startPlanChanges(t, [
    yearly,
    12,
  ]);
  const [, monthly] = plans as [Plan, Plan];
  await stage.startKeeper();
  const first = await buyer.buy();
  await stage.quiet();
  stage.passHours(720);
  const second = await change(first, monthly);
  t.equal((await read(second)).credit, UNUSED - MONTH, '98.14 USDC');
  t.match(await stage.payments(second), [{ source: 'credit', creditSpent: MONTH }]);
  const paid = await stage.balance(buyer.wallet);

  t.equal((await act(second.id, 'cancel', { mode: 'period_end' })).status, 200);
  stage.passHours(721);
  await stage.until('it has ended', async () => (await read(second)).status === 'cancelled');
  const finalized = (await stage.events(second)).find(({ type }) => type === 'cancel_finalized');
  t.equal(finalized?.data.credit, String(UNUSED - MONTH), 'the event names what is left');

  const third = await registerAgain(second);
  const [payment] = await stage.payments(third);
  t.equal(payment?.source, 'credit', 'the credit pays again');
  const { creditSpent } = payment!;
  t.equal((await read(third)).credit, UNUSED - MONTH - creditSpent);
  t.equal(await stage.balance(buyer.wallet), paid, 'nothing more was pulled');
  t.match(
    await stage.sql`
      select reason, amount from credits order by id`,
    [
      { reason: 'change_of_plan', amount: UNUSED },
      { reason: 'spent', amount: -MONTH },
      { reason: 'spent', amount: -creditSpent },
    ],
  );
  t.match(await stage.sql`select reason, amount from credit_notes`, [
    { reason: 'change_of_plan', amount: UNUSED },
  ]);
  t.same(await listCreditFaults(stage.sql), []);
});
