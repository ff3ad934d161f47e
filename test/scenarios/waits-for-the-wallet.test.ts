// A keeper that has registered an account without an offer waits two minutes for its wallet.
import t, { type Test } from 'tap';
import { CLOCK_SYSVAR } from '../../src/chain/program/addresses.ts';
import {
  cancelInstructions,
  resumeInstructions,
} from '../../src/chain/transactions/subscriptions.ts';
import { Unregistered } from '../../src/keeper/follow/unregistered.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, paid, post, registered, rowsOf } from '../fixtures/shown-terms.ts';

/** A wallet that opens an account by its own client, and the merchant's session for it. */
async function scene(t: Test, terms: object = { discount: { percentOff: 50 } }) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  await merchant.patch({ registerUnclaimed: true });
  const session = await merchant.session(terms);
  const buyer = await stage.buyer(plan);
  return { stage, plan, merchant, session, buyer };
}

void t.test(
  'the wait for the wallet continues after a cancel and a resume of the account',
  async (t) => {
    const { stage, plan, session, buyer } = await scene(t);
    const { merchant: owner } = plan;
    const dearer = await stage.plan({ amount: 25_000_000n, periodHours: 720, merchant: owner });
    await stage.sql`update plans set app_id = ${plan.appId} where id = ${dearer.id}`;
    await stage.startKeeper();
    const pda = await stage.open(plan, buyer.keypair);
    await registered(stage, buyer);
    await stage.quiet();
    const [row] = await rowsOf(stage, buyer);
    const due = row!.nextPaymentDue!;
    const change = { planId: dearer.id, when: 'now' };
    t.equal((await buyer.post(`subscriptions/${row!.id}/change`, change)).status, 200);
    const { programId, mint } = stage.net;
    const of = { subscriber: buyer.wallet, plan: plan.pda, subscription: pda };
    await stage.send([buyer.keypair], cancelInstructions(programId, of));
    const subscription = { id: row!.id, pda, wallet: buyer.keypair, plan };
    await stage.until(
      'its cancellation is seen',
      async () => (await stage.row(subscription)).cancelRequestedAt !== null,
    );
    const { expiresAt } = (await stage.onChain(subscription))!;
    await stage.send([buyer.keypair], resumeInstructions(programId, { ...of, mint, expiresAt }));
    await stage.until(
      'its resumption is seen',
      async () => (await stage.row(subscription)).cancelRequestedAt === null,
    );
    await stage.quiet();
    t.ok(stage.now() * 1000 < due.getTime(), 'the two minutes are not over');
    t.same(await paid(stage, buyer), [], 'no attempt is committed');
    t.same((await rowsOf(stage, buyer))[0]!.nextPaymentDue, due);
    t.equal((await post(buyer, pda, { checkoutSessionId: session.id })).status, 201);
    await stage.until('it is paid', async () => (await paid(stage, buyer)).length === 1);
    t.same(await paid(stage, buyer), [2_500_000n]);
  },
);

void t.test(
  'an endpoint that is five minutes behind does not shorten the wait for the wallet',
  async (t) => {
    const { stage, plan, session, buyer } = await scene(t);
    const pda = await stage.open(plan, buyer.keypair);
    const opened = stage.now();
    const { context } = stage.parts({
      getMultipleAccounts: async (addresses, options) => {
        const found = await stage.rpc.getMultipleAccounts(addresses, options);
        const accounts = found.accounts.map((account, index) => {
          if (account === null || addresses[index] !== CLOCK_SYSVAR) return account;
          const data = Buffer.from(account.data);
          data.writeBigInt64LE(data.readBigInt64LE(32) - 300n, 32);
          return { ...account, data };
        });
        return { ...found, accounts };
      },
    });
    const unregistered = new Unregistered(context, () => undefined);
    await stage.until('it is registered', async () => {
      await unregistered.turn();
      unregistered.gap();
      return (await rowsOf(stage, buyer)).length === 1;
    });
    await stage.startKeeper();
    await stage.quiet();
    t.ok(stage.now() < opened + 120, 'the two minutes are not over');
    t.same(await paid(stage, buyer), [], 'no attempt is committed');
    t.equal((await post(buyer, pda, { checkoutSessionId: session.id })).status, 201);
  },
);

void t.test(
  'settings of the merchant during the wait stay unless the wallet’s session sets them',
  async (t) => {
    const { stage, plan, merchant, session, buyer } = await scene(t, { trialHours: 48 });
    await stage.startKeeper();
    const pda = await stage.open(plan, buyer.keypair);
    await registered(stage, buyer);
    const [{ id }] = (await rowsOf(stage, buyer)) as unknown as [{ id: string }];
    const { token, path } = merchant;
    const body = { externalId: 'alice', discount: { percentOff: 10 } };
    const patched = await stage.api.call('PATCH', `${path}/subscriptions/${id}`, { token, body });
    t.equal(patched.status, 200);
    t.equal((await post(buyer, pda, { checkoutSessionId: session.id })).status, 201);
    const [row] = await rowsOf(stage, buyer);
    t.match(row, { externalId: 'alice', discountPercent: 10 });
    t.ok(row!.trialEndsAt, 'the trial of the session');
  },
);
