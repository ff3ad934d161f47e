// A table of wallets: each subscribes, pays and cancels on the pages, or the page says why it
// cannot.
import t, { type Test } from 'tap';
import { closeBrowser, type Stage, startStage } from '../fixtures/browser.ts';
import { randomAddress } from '../fixtures/http.ts';
import type { WalletSwitches } from '../fixtures/page-wallet.ts';
import { look, type Scene, scene, subscribed } from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

/** Micro-lamports for a compute unit: a fee below the 0.01 SOL that a wallet may set. */
const OWN_PRICE = 100_000;
/** Blocks of 400 ms in 50 s. A blockhash is valid for 150. */
const BLOCKS_OF_50_S = 125;
const BLOCKS_OF_80_S = 200;
const other = randomAddress();

interface Row {
  switches: (stage: Stage) => Partial<WalletSwitches>;
  /** Before the wallet subscribes. */
  before?: (stage: Stage, one: Scene) => Promise<unknown>;
  /** After the first press of the button, for a wallet that gets there on a second way. */
  then?: (t: Test, one: Scene) => Promise<void>;
  /** What the page says when the wallet cannot subscribe, and what the wallet was asked by then. */
  told?: { text: string; asked: string[] };
  /** What the wallet is asked in order to subscribe, after it is connected. */
  asked?: string[];
}

const always = (switches: Partial<WalletSwitches>) => () => switches;

const rows: Readonly<Record<string, Row>> = {
  'envelope, legacy': {
    switches: always({ features: ['signMessage', 'signTransaction'], envelope: 'legacy' }),
    asked: ['signMessage', 'signTransaction'],
  },
  'envelope, version 0': {
    switches: always({ features: ['signMessage', 'signTransaction'], envelope: 'version0' }),
    asked: ['signMessage', 'signTransaction'],
  },
  'envelope, version 1': {
    switches: always({ features: ['signOffchainMessage', 'signTransaction'] }),
    asked: ['signOffchainMessage', 'signTransaction'],
  },
  'transactions only': {
    switches: always({ features: ['signTransaction'] }),
    asked: ['signTransaction', 'signTransaction'],
  },
  'an account that signs transactions only': {
    switches: always({
      features: ['signMessage', 'signTransaction', 'signAndSendTransaction'],
      accountFeatures: ['signTransaction'],
    }),
    asked: ['signTransaction', 'signTransaction'],
  },
  'an account that is only watched': {
    switches: always({ accountFeatures: [] }),
    told: { text: 'cannot sign', asked: ['connect'] },
  },
  'own fee': { switches: always({ ownPrice: OWN_PRICE }) },
  'own fee above the bound': {
    switches: always({ ownPrice: 1000 * OWN_PRICE }),
    told: {
      text: 'its fee of',
      asked: ['connect', 'signIn', 'signTransaction'],
    },
  },
  'own blockhash': {
    switches: ({ chain }) => ({
      ownBlockhash: true,
      beforeSigning: async () => {
        chain.mineBlocks(5);
      },
    }),
  },
  'version 0': { switches: always({ version0: true }) },
  'sends itself, and does nothing else': {
    switches: always({ features: ['signMessage', 'signAndSendTransaction'] }),
    asked: ['signMessage', 'signAndSendTransaction'],
  },
  'sends itself, first': {
    switches: always({ features: ['signMessage', 'signAndSendTransaction', 'signTransaction'] }),
    asked: ['signMessage', 'signAndSendTransaction'],
  },
  'another account': {
    switches: always({ signsInAs: other }),
    told: { text: other, asked: ['connect', 'signIn'] },
  },
  'slow by 50 s': {
    switches: ({ chain }) => ({
      beforeSigning: async () => {
        chain.mineBlocks(BLOCKS_OF_50_S);
      },
    }),
  },
  'slower than its blockhash, once': {
    switches: ({ chain }) => ({
      features: ['signMessage', 'signTransaction', 'signAndSendTransaction'],
      beforeSigning: async () => {
        chain.mineBlocks(BLOCKS_OF_80_S);
      },
    }),
    then: async (t, one) => {
      await one.sees('The request expired');
      t.equal(await one.registrations(), 0);
      one.wallet.switches.beforeSigning = undefined;
      await one.page.getByRole('button', { name: 'Try again' }).click();
    },
    asked: ['signMessage', 'signTransaction', 'signAndSendTransaction'],
  },
  'rejects from a device': {
    switches: always({
      rejects: 'sign',
      rejection: 'Ledger device: Conditions of use not satisfied (0x6985)',
    }),
    told: {
      text: 'Ledger device: Conditions of use not satisfied (0x6985)',
      asked: ['connect', 'signIn', 'signTransaction'],
    },
  },
  frozen: {
    switches: always({}),
    before: ({ chain }, { wallet }) =>
      chain.rpc('surfnet_setTokenAccount', wallet.address, chain.mint, { state: 'frozen' }),
    told: { text: 'is frozen', asked: ['connect', 'signIn'] },
  },
};

/** The wallet pays its first period and cancels. */
async function paysAndCancels(t: Test, stage: Stage, one: Scene): Promise<void> {
  await one.sees(subscribed);
  await one.sees('Paid until');
  const { sql } = stage.served;
  const { planId, wallet } = one;
  const paid = await sql`
    select 1 from payments where plan_id = ${planId} and status = 'succeeded'
      and subscriber_wallet = ${wallet.address}`;
  t.equal(paid.length, 1);
  await one.page.goto('/account');
  await one.page.getByRole('button', { name: /^Cancel subscription/ }).click();
  await one.sees('Cancelled. Nothing more is collected');
  const cancelled = await sql`
    select 1 from subscriptions where plan_id = ${planId}
      and subscriber_wallet = ${wallet.address} and cancel_requested_at is not null`;
  t.equal(cancelled.length, 1);
}

void t.test('each wallet subscribes, pays and cancels, or is told why not', async (t) => {
  const stage = await startStage(t);
  const { id: planId } = await stage.plan();
  for (const width of [1280, 390])
    for (const [name, { switches, before, then, told, asked }] of Object.entries(rows))
      await t.test(`${name}, ${width} pixels`, async (t) => {
        const one = await scene(stage, switches(stage), { planId, width });
        await before?.(stage, one);
        await one.press();
        await then?.(t, one);
        if (told !== undefined) {
          await one.sees(told.text);
          t.same(one.wallet.asked, told.asked);
          t.equal(await one.registrations(), 0);
          if (width === 1280) await look(t, one, `wallet-${name.replaceAll(/[^a-z0-9]+/g, '-')}`);
          return;
        }
        await one.sees(subscribed);
        t.same(one.wallet.asked, ['connect', ...(asked ?? ['signIn', 'signTransaction'])]);
        await paysAndCancels(t, stage, one);
        t.same(one.faults, []);
      });
});
