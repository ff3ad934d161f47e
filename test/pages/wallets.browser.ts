// Each wallet of the table subscribes, pays and cancels, or the page says why it cannot.
import t from 'tap';
import { closeBrowser, startStage } from '../fixtures/browser.ts';
import { look, scene, subscribed } from '../fixtures/subscribe-scene.ts';
import { INTERNAL, paysAndCancels, walletRows } from '../fixtures/wallet-rows.ts';

t.teardown(closeBrowser);

void t.test(
  'each known wallet subscribes, pays and cancels, or the page says why it cannot',
  async (t) => {
    const stage = await startStage(t);
    const { id: planId } = await stage.plan();
    for (const width of [1280, 390])
      for (const [name, { switches, before, then, told, asked }] of Object.entries(walletRows))
        await t.test(`the wallet ${name} works on pages of ${width} pixels width`, async (t) => {
          const one = await scene(stage, switches(stage), { planId, width });
          await before?.(stage, one);
          await one.press();
          await then?.(t, one);
          if (told !== undefined) {
            await one.sees(told.text);
            t.same(one.wallet.asked, told.asked);
            t.equal(await one.registrations(), 0);
            t.notMatch(await one.page.locator('.notice').innerText(), INTERNAL, 'words for buyers');
            if (width === 1280) await look(t, one, `wallet-${name.replaceAll(/[^a-z0-9]+/g, '-')}`);
            return;
          }
          await one.sees(subscribed);
          t.same(one.wallet.asked, ['connect', ...(asked ?? ['signIn', 'signTransaction'])]);
          await paysAndCancels(t, stage, one);
          t.same(one.faults, []);
        });
  },
);
