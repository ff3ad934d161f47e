// The soak is only worth something if its check of credit names each kind of harm.
import t from 'tap';
import type { Transaction } from '../../src/db/postgres/connect.ts';
import { creditBreaches } from '../fixtures/credit-breaches.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import {
  grantCredit,
  insertAttempt,
  insertInvoice,
  insertMerchant,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../fixtures/rows.ts';

void t.test('each kind of credit that does not add up is named', async (t) => {
  const { sql } = await testDatabase(t);
  const { appId, wallet } = await insertMerchant(sql);
  const planId = await insertPlan(sql, { appId, wallet });
  const id = await insertSubscription(sql, { appId, planId });
  await grantCredit(sql, id, 3_000_000n);
  await insertInvoice(sql, id);
  await insertAttempt(sql);
  t.same(await creditBreaches(sql), []);

  /** Writes what the triggers would refuse, checks, and takes it back. */
  const harm = async (breach: RegExp, write: (tx: Transaction) => Promise<unknown>) => {
    const undone = new Error('undone');
    const checked = sql.begin(async (tx) => {
      await tx`set local session_replication_role = replica`;
      await write(tx);
      t.match(await creditBreaches(tx), [breach]);
      throw undone;
    });
    await t.rejects(checked, undone);
  };
  await harm(
    /has 2999999, his movements make 3000000/,
    (tx) => tx`update credit_balances set balance = balance - 1`,
  );
  await harm(/his movements make 3000000/, (tx) => tx`delete from credit_balances`);
  await harm(
    /\(open\) applies 5 and has spent 0/,
    (tx) => tx`update invoices set credit_applied = 5, plan_amount = plan_amount + 5,
      total = total + 5`,
  );
  await harm(
    /\(uncollectible\) applies 0 and has spent 5/,
    (tx) => tx`
      with closed as (
        update invoices set state = 'uncollectible', closed_at = now(), troubled_at = now(),
          unpaid_at = now() returning id, customer_id
      ), lower as (update credit_balances set balance = balance - 5)
      insert into credits (customer_id, amount, reason, invoice_id)
      select customer_id, -5, 'spent', id from closed`,
  );
  await harm(
    /pulls 9000000, 10000000 is due/,
    (tx) => tx`update payment_attempts set amount_gross = 9000000, amount_net = 9000000`,
  );
  await insertPayment(sql, id, '2027-01-01T00:00:00Z', { further: true });
  t.match(await creditBreaches(sql), [/the pull .* without an invoice is no credit/]);
});
