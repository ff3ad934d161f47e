// A keeper registers an account without an offer from an endpoint whose clock is five minutes behind,
// and loses that endpoint: the wait for the wallet lasts two minutes all the same.
import t from 'tap';
import { CLOCK_SYSVAR } from '../../src/chain/program/addresses.ts';
import { Unregistered } from '../../src/keeper/follow/unregistered.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import { merchantOf, paid, post, rowsOf } from '../fixtures/shown-terms.ts';

void t.test('no attempt is committed for two minutes of chain time', async (t) => {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
  const merchant = await merchantOf(stage, plan);
  await merchant.patch({ registerUnclaimed: true });
  const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
  const buyer = await stage.buyer(plan);
  const pda = await stage.open(plan, buyer.keypair);
  const opened = stage.now();
  const { context } = stage.parts({
    getMultipleAccounts: async (addresses, options) => {
      const found = await stage.rpc.getMultipleAccounts(addresses, options);
      const accounts = found.accounts.map((account, place) => {
        if (account === null || addresses[place] !== CLOCK_SYSVAR) return account;
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
});
