// The plan's owner pulls in a period that a credit has paid: the pull is a further payment, and the
// keeper goes on.
import t from 'tap';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { startApiStage } from '../fixtures/api-stage.ts';

void t.test(
  'a pull by the plan’s owner in a period that a credit paid is recorded once',
  async (t) => {
    const stage = await startApiStage(t);
    const large = await stage.plan({ amount: 100_000_000n, periodHours: 720 });
    const { merchant, appId } = large;
    const made = await stage.plan({ amount: 10_000_000n, periodHours: 720, merchant });
    await stage.sql`update plans set app_id = ${appId} where id = ${made.id}`;
    const keeper = await stage.startKeeper();
    const buyer = await stage.buyer(large);
    const first = await buyer.buy();
    await stage.quiet();
    const { body } = await buyer.post<{ transaction: string; subscriptionPda: string }>(
      `subscriptions/${first.id}/change`,
      { planId: made.id, when: 'now' },
    );
    const { transaction, subscriptionPda: pda } = body.data;
    await stage.land(buyer.keypair, transaction);
    const found = () => stage.sql<{ id: string }[]>`
    select id from subscriptions where plan_id = ${made.id}`;
    await stage.until('the change is registered', async () => (await found()).length === 1);
    const [row] = await found();
    const second = { id: row!.id, pda, wallet: buyer.keypair, plan: { ...made, appId } };
    const booked = async () =>
      (await stage.sql<{ source: string; further: boolean; amountGross: bigint }[]>`
      select source, further, amount_gross from payments where subscription_id = ${second.id}
      order by id`) as { source: string; further: boolean; amountGross: bigint }[];
    await stage.until('the credit has paid', async () => (await booked()).length === 1);

    const pull = transferSubscription(stage.net.programId, {
      ...{ subscriber: buyer.wallet, plan: made.pda, subscription: pda, caller: merchant.address },
      ...{ receiver: merchant.address, mint: stage.net.mint, amount: 10_000_000n },
    });
    stage.net.fund(merchant.address, { usdc: 1n });
    await stage.send([merchant], [pull]);
    await stage.until('the pull is booked', async () => (await booked()).length === 2);
    await stage.quiet();
    t.match(await booked(), [
      { source: 'credit', further: false, amountGross: 0n },
      { source: 'foreign', further: true, amountGross: 10_000_000n },
    ]);
    const metrics = await keeper.registry.metrics();
    t.match(metrics, /alerts\w*\{[^}]*cannot_be_processed[^}]*\} 0/);
  },
);
