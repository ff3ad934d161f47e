// Nothing is collected from a suspended subscriber or for a suspended merchant.
import t from 'tap';
import { endSuspension, suspend } from '../../src/db/accounts/suspensions.ts';
import { AMOUNT, due, paidOnce } from '../fixtures/agreement.ts';

const by = { who: 'tester', host: 'here' };

for (const role of ['merchant', 'subscriber'] as const)
  void t.test(
    `the payments of a suspended ${role} stay due without a failure; others are collected`,
    async (t) => {
      const { stage, plan, subscription } = await due(t);
      const poor = await stage.subscriber(plan, { usdc: 0n });
      const open = await stage.plan({ amount: AMOUNT });
      const other = await stage.subscriber(open);
      const wallets =
        role === 'merchant'
          ? [plan.merchant.address]
          : [subscription.wallet.address, poor.wallet.address];
      const accounts = wallets.map((wallet) => ({ role, wallet, reason: 'a test', by }));
      for (const account of accounts) await suspend(stage.sql, account);
      await stage.startKeeper();
      await paidOnce(stage, other);
      for (const one of [subscription, poor]) {
        await stage.until('it is put off', async () => {
          const { dueAt, nextPaymentDue } = await stage.row(one);
          return dueAt !== null && nextPaymentDue !== null && dueAt > nextPaymentDue;
        });
        t.match(await stage.row(one), { status: 'active', failedAttempts: 0, setbacks: 0 });
        t.same(await stage.payments(one), []);
      }
      for (const account of accounts) await endSuspension(stage.sql, account);
      stage.net.passSeconds(61);
      await paidOnce(stage, subscription);
      await stage.until('the other fails', async () => (await stage.payments(poor)).length > 0);
      t.match(await stage.row(poor), { status: 'past_due' });
    },
  );
