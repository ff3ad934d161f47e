// An account that was cancelled and still runs is resumed: standing shows what is charged then, a
// trial counted from the start of the account's period.
import t from 'tap';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import {
  merchantOf,
  offerOf,
  paid,
  registered,
  rowsOf,
  standingOf,
} from '../fixtures/shown-terms.ts';

type Shown = Awaited<ReturnType<typeof standingOf>>;

async function start(t: Parameters<typeof startApiStage>[0]) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  return { stage, plan, merchant: await merchantOf(stage, plan) };
}

/** Waits for the payment that was shown, if any. Some seconds pass between the two. */
async function paysAsShown(
  t: Parameters<typeof startApiStage>[0],
  stage: ApiStage,
  { usdcNeeded }: Shown,
  payments: () => Promise<bigint[]>,
) {
  const most = BigInt(usdcNeeded);
  if (most > 0n) await stage.until('it is paid', async () => (await payments()).length > 0);
  await stage.quiet();
  const [now = 0n] = await payments();
  t.ok(now <= most && now >= most - 10_000n, `${now} of ${most}`);
}

void t.test(
  'an account that was opened and cancelled elsewhere is charged as shown when it is resumed',
  async (t) => {
    for (const [hours, isInTrial] of [
      [240, false],
      [24, true],
    ] as const)
      await t.test(
        `an account resumed after ${hours} hours, with a trial of 168, is charged as shown`,
        async (t) => {
          const { stage, plan, merchant } = await start(t);
          await merchant.patchPlan({ trialHours: 168 });
          const buyer = await stage.buyer(plan);
          const subscription = await stage.open(plan, buyer.keypair);
          const of = { subscriber: buyer.wallet, plan: plan.pda, subscription };
          await stage.send([buyer.keypair], cancelInstructions(stage.net.programId, of));
          stage.passHours(hours);
          await stage.startKeeper();
          const shown = await standingOf(buyer);
          t.match(shown, { onChain: 'cancelled', trialHours: isInTrial ? 168 : null });
          t.equal(shown.usdcNeeded === '0', isInTrial);
          const offer = await offerOf(buyer);
          await stage.land(buyer.keypair, offer.transaction);
          await registered(stage, buyer);
          await paysAsShown(t, stage, shown, () => paid(stage, buyer));
          if (!isInTrial) return;
          stage.passHours(168 - hours + 1);
          await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
          t.same((await paid(stage, buyer)).map(String), [shown.schedule[0]!.amount]);
        },
      );
  },
);

void t.test(
  'an ended subscription that is resumed in a session with a trial is charged as shown',
  async (t) => {
    for (const isPaid of [false, true])
      for (const trialHours of [168, 480])
        await t.test(
          `resuming with a trial of ${trialHours} hours is charged as shown, the period ${isPaid ? '' : 'not '}paid`,
          async (t) => {
            const { stage, plan, merchant } = await start(t);
            await stage.startKeeper();
            const buyer = await stage.buyer(plan, { usdc: isPaid ? 1_000_000_000n : 1n });
            const bought = await buyer.buy();
            await stage.until('it was tried', async () => {
              return isPaid
                ? (await paid(stage, buyer)).length === 1
                : (await stage.row(bought)).status === 'past_due';
            });
            await stage.quiet();
            await buyer.cancel(bought);
            await stage.until('the keeper has read it', async () => {
              const { status, cancelRequestedAt } = await stage.row(bought);
              return isPaid ? cancelRequestedAt !== null : status === 'cancelled';
            });
            const path = `${merchant.path}/subscriptions/${bought.id}`;
            const { token } = merchant;
            if (isPaid) {
              await stage.api.call('POST', `${path}/cancel`, { token, body: { mode: 'force' } });
              await stage.api.call('POST', `${path}/reinstate`, { token, body: {} });
            }
            stage.net.fund(buyer.wallet, { usdc: 1_000_000_000n });
            stage.passHours(240);
            const session = await merchant.session({ externalId: 'alice', trialHours });
            const shown = await standingOf(buyer, { session });
            const isInTrial = trialHours > 240;
            t.match(shown, { onChain: 'cancelled', trialHours: isInTrial ? trialHours : null });
            t.equal(shown.usdcNeeded === '0', isPaid || isInTrial);
            const before = (await paid(stage, buyer)).length;
            const offer = await offerOf(buyer, { checkoutSessionId: session.id });
            await stage.land(buyer.keypair, offer.transaction);
            await registered(stage, buyer, 2);
            const since = async () => (await paid(stage, buyer)).slice(before);
            await paysAsShown(t, stage, shown, since);
            if (!isPaid && !isInTrial) return;
            const [next] = shown.schedule;
            const dueIn = Date.parse(next!.dueAt) / 1000 - stage.now();
            stage.passHours(Math.floor(dueIn / 3600) - 1);
            await stage.quiet();
            t.same(await since(), [], 'nothing before');
            stage.passHours(2);
            await stage.until('it is paid', async () => (await since()).length === 1);
            t.same((await since()).map(String), [next!.amount]);
            t.match((await rowsOf(stage, buyer))[1], { externalId: 'alice' });
          },
        );
  },
);
