// The wallets of the table where the service sponsors them.
import t from 'tap';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { scene, subscribed } from '../fixtures/subscribe-scene.ts';
import { paysAndCancels, walletRows } from '../fixtures/wallet-rows.ts';

t.teardown(closeBrowser);

void t.test('each supported wallet app subscribes, pays and cancels with sponsoring', async (t) => {
  const stage = await startStage(t, { env: { SPONSOR_LAMPORTS_PER_DAY: '1000000000' } });
  const { id: planId } = await stage.plan();
  for (const [name, { switches, before, sponsored }] of Object.entries(walletRows)) {
    if (sponsored === undefined) continue;
    const { then, told, asked = [], cancels } = sponsored;
    await t.test(name, async (t) => {
      const one = await scene(stage, switches(stage), { planId, width: 390 });
      await before?.(stage, one);
      await one.press();
      await then?.(t, one);
      if (told !== undefined) {
        await one.sees(told.text);
        t.same(one.wallet.asked, told.asked);
        t.equal(await one.registrations(), 0);
        return;
      }
      await one.sees(subscribed);
      t.same(one.wallet.asked, ['connect', ...asked]);
      await paysAndCancels(t, stage, one, cancels);
      t.same(one.faults, []);
    });
  }
});
