// A refund of the payment of an account's first registration, recorded while a change of plan of
// its second one is registered.
import t from 'tap';
import { lockRefunded, recordRefund } from '../../src/db/money/refunds.ts';
import { endRefundedPeriod } from '../../src/db/subscriptions/refunded.ts';
import { takeOver } from '../../src/domain/registration/plan-credit.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';

for (const amount of [1_000_000n, 99_000_000n])
  void t.test(
    `a refund of ${amount} and a change of plan do not lock each other out`,
    async (t) => {
      const { stage, buyer, forceAndReinstate, registerAgain } = await startPlanChanges(
        t,
        [100, 40],
      );
      const { sql } = stage;
      const keeper = await stage.startKeeper();
      const first = await buyer.buy();
      await stage.quiet();
      await forceAndReinstate(first);
      const again = await registerAgain(first);
      await keeper.stop();
      const [refund] = await sql<[{ id: string }]>`
      insert into refunds (app_id, payment_id, subscription_id, amount, reference, blockhash,
        last_valid_block_height, blockhash_slot, look_at, status)
      select app_id, id, subscription_id, ${amount}, 'r', 'x', 1, 1, null, 'expired'
      from payments where subscription_id = ${first.id} returning id`;
      const at = BigInt(stage.now());
      const occurredAt = new Date(stage.net.now());
      let changing: Promise<unknown> = Promise.resolve();
      await sql.begin(async (tx) => {
        await lockRefunded(tx, refund.id);
        const done = await recordRefund(tx, refund.id, { txSignature: '5'.repeat(88), occurredAt });
        changing = sql.begin((other) => takeOver(other, { id: again.id, when: 'now', at }));
        await stage.until('the change waits', async () => {
          const waiting = await sql`
          select 1 from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock'`;
          return waiting.length > 0;
        });
        await endRefundedPeriod(tx, done!.transactionId, occurredAt);
      });
      await t.resolves(changing);
    },
  );
