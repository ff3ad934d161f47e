// Sponsored subscriptions in a browser: a wallet with USDC and without SOL, judged by the chain,
// the database and the sponsor's balance.
import type { Route } from 'playwright-core';
import t, { type Test } from 'tap';
import type { components } from '../../src/client/openapi.ts';
import { closeBrowser, inspect, type Stage, startStage } from '../fixtures/browser.ts';
import { createTestWallet, type WalletSwitches } from '../fixtures/page-wallet.ts';
import {
  approveForeign,
  holdRequests,
  type Scene,
  scene,
  subscribed,
} from '../fixtures/subscribe-scene.ts';

t.teardown(closeBrowser);

/** Lamports of the network fees of one wallet's transactions, at most. */
const MAX_FEES = 60_000n;
const env = { SPONSOR_LAMPORTS_PER_DAY: '1000000000' };
const amount = { amount: '5000000' };

const poorScene = async (stage: Stage, switches: Partial<WalletSwitches> = {}, options = {}) =>
  scene(stage, switches, {
    gifts: { lamports: 0n, usdc: 5_000_000n },
    planId: (await stage.plan(amount)).id,
    ...options,
  });

const balance = async ({ chain }: Stage, address: string) =>
  BigInt(
    (await chain.rpc<{ value: number }>('getBalance', address, { commitment: 'confirmed' })).value,
  );

/** Switches sponsoring on or off for the merchant's app. */
const sponsors = ({ served, merchant: { token, appId } }: Stage, sponsorship: 'on' | 'off') =>
  served.call('PATCH', `/merchant/apps/${appId}`, { token, body: { sponsorship } });

const sponsorships = ({ served }: Stage, wallet: string) =>
  served.sql<
    { purpose: string; state: string; sponsor: string; isBack: boolean; authorityIsBack: boolean }[]
  >`
    select purpose, state, sponsor, subscription_returned_at is not null as is_back,
      authority_returned_at is not null as authority_is_back
    from sponsorships where wallet = ${wallet} order by created_at`;

/** Holds the page's next read of the progress that knows this state, until it is let go. */
const holdProgress = (one: Scene, known: string) =>
  holdRequests(one, `**/checkout/offers/*known=${known}*`);

async function subscribes(t: Test, stage: Stage, one: Scene): Promise<void> {
  const letGo = await holdProgress(one, 'confirmed');
  await one.press();
  await one.sees('Your payment is confirmed');
  await inspect(t, one.page, 'sponsored-confirmed');
  letGo();
  await one.sees(subscribed);
  await one.sees('Paid until');
  await inspect(t, one.page, 'sponsored-done');
  t.same(one.wallet.asked, ['connect', 'signTransaction'], 'one prompt');
  t.equal(await balance(stage, one.wallet.address), 0n, 'no SOL before or after');
  const { sql } = stage.served;
  const [subscription] = await sql<[{ pda: string; paid: boolean }]>`
    select subscription_pda as pda, paid_through is not null as paid from subscriptions
    join subscription_work on subscription_id = id
    where subscriber_wallet = ${one.wallet.address}`;
  t.equal(subscription.paid, true);
  const history = await stage.chain.rpc<unknown[]>('getSignaturesForAddress', subscription.pda);
  t.equal(history.length, 1, 'one transaction on chain');
  t.match(await sponsorships(stage, one.wallet.address), [
    { purpose: 'subscribe', state: 'landed' },
  ]);
}

async function leaves(t: Test, stage: Stage, one: Scene): Promise<void> {
  const { sql } = stage.served;
  const { page } = one;
  await page.goto('/account');
  await page.getByRole('button', { name: /^Cancel subscription/ }).click();
  await one.sees('Cancelled. Nothing more is collected');
  const subscription = async () => {
    const [row] = await sql<[{ status: string; paidThrough: Date; pda: string }]>`
      select status, paid_through, subscription_pda as pda from subscriptions
      join subscription_work on subscription_id = id
      where subscriber_wallet = ${one.wallet.address}`;
    return row;
  };
  const { paidThrough, pda } = await subscription();
  stage.chain.passSeconds(Math.ceil((paidThrough.getTime() - stage.chain.now()) / 1000) + 60);
  await stage.until('it is cancelled', async () => (await subscription()).status === 'cancelled');
  await stage.until('the keeper has closed the account', async () => {
    const { value } = await stage.chain.rpc<{ value: unknown }>('getAccountInfo', pda, {
      encoding: 'base64',
      commitment: 'confirmed',
    });
    return value === null;
  });
  await page.reload();
  await page.getByRole('button', { name: 'Withdraw the approval' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await dialog.getByText('You can approve payments again later').waitFor();
  await inspect(t, page, 'account-withdraw');
  await dialog.getByRole('checkbox').check();
  await dialog.getByText('This cannot be undone').waitFor();
  t.equal(await dialog.getByText('approve payments again').count(), 0);
  await dialog.getByRole('button', { name: 'Withdraw the approval' }).click();
  await one.sees('The approval is withdrawn');
  t.equal(await page.getByRole('button', { name: 'Withdraw the approval' }).count(), 0);
  await inspect(t, page, 'account-withdrawn');
  t.equal(await balance(stage, one.wallet.address), 0n, 'the deposits were not the wallet’s');
  await sql`update sponsorships set checked_at = now() - interval '2 days'`;
  await stage.until('the keeper knows that its rent is back, and of the revocation', async () => {
    const found = await sponsorships(stage, one.wallet.address);
    const isBack = found.some((its) => its.isBack && its.authorityIsBack);
    return isBack && found.every(({ state }) => state === 'landed');
  });
}

void t.test('a wallet with 5 USDC and no SOL can use all pages', async (t) => {
  const stage = await startStage(t, { env });
  for (const width of [1280, 390])
    await t.test(
      `a wallet without SOL subscribes, cancels and closes on a screen of ${width} pixels`,
      async (t) => {
        const one = await poorScene(stage, {}, { width });
        const sponsor = stage.served.env.KEEPER_ADDRESS ?? '';
        const before = await balance(stage, sponsor);
        await subscribes(t, stage, one);
        await leaves(t, stage, one);
        const found = await sponsorships(stage, one.wallet.address);
        t.same(
          found.map(({ purpose, state }) => `${purpose} ${state}`),
          ['subscribe landed', 'cancel landed', 'revoke landed'],
        );
        const spent = before - (await balance(stage, sponsor));
        t.ok(spent > 0n && spent < MAX_FEES, `the sponsor paid network fees only: ${spent}`);
        t.same(one.faults, []);
      },
    );

  await t.test(
    'a wallet that changes the sponsored message is told so and then pays in SOL',
    async (t) => {
      const gifts = { lamports: 1_000_000_000n, usdc: 5_000_000n };
      const one = await poorScene(stage, { ownPrice: 100_000 }, { gifts });
      await one.press();
      await one.sees('your wallet then pays the fee itself, in SOL');
      t.equal(await one.registrations(), 0);
      await inspect(t, one.page, 'sponsored-changed');
      await one.press();
      await one.sees(subscribed);
      t.same(one.wallet.asked.slice(1), [
        'signTransaction',
        'connect',
        'signIn',
        'signTransaction',
      ]);
      t.same(await sponsorships(stage, one.wallet.address), []);
    },
  );

  await t.test(
    'a wallet that cannot sign without sending is shown that it needs SOL',
    async (t) => {
      const gifts = { lamports: 1_000_000_000n, usdc: 5_000_000n };
      const features = ['signMessage', 'signAndSendTransaction'] as const;
      const one = await poorScene(stage, { features }, { gifts });
      await one.press();
      await one.sees('Your wallet needs some SOL here');
      t.same(one.wallet.asked, ['connect'], 'before it is asked for anything');
      await inspect(t, one.page, 'sponsored-sends');
      await one.press();
      await one.sees(subscribed);
      t.same(await sponsorships(stage, one.wallet.address), []);
    },
  );

  const all = ['signIn', 'signMessage', 'signTransaction', 'signAndSendTransaction'] as const;
  const passBlocks = async () => {
    stage.chain.mineBlocks(200);
  };

  await t.test(
    'after a sponsored transaction lapsed, a wallet with SOL sends its next one itself, on each page',
    async (t) => {
      const gifts = { lamports: 1_000_000_000n, usdc: 5_000_000n };
      const one = await poorScene(stage, { features: all, beforeSigning: passBlocks }, { gifts });
      await one.press();
      await one.sees('The request expired');
      one.wallet.switches.ownBlockhash = true;
      await one.press();
      await one.sees(subscribed);
      await one.sees('Paid until');
      const sends = ['connect', 'signTransaction', 'connect', 'signAndSendTransaction'];
      t.same(one.wallet.asked.splice(0), sends, 'signed in by the hand-over');

      await one.page.goto('/account');
      one.wallet.switches.ownBlockhash = false;
      const cancel = one.page.getByRole('button', { name: /^Cancel subscription/ });
      await cancel.click();
      await one.sees('The request to your wallet expired');
      one.wallet.switches.ownBlockhash = true;
      await cancel.click();
      await one.sees('Cancelled. Nothing more is collected');
      t.same(one.wallet.asked, ['signTransaction', 'signAndSendTransaction']);
    },
  );

  await t.test(
    'after a sponsored transaction lapsed, a wallet without SOL is sponsored again',
    async (t) => {
      const one = await poorScene(stage, { features: all, beforeSigning: passBlocks });
      await one.press();
      await one.sees('The request expired');
      await inspect(t, one.page, 'sponsored-lapsed');
      one.wallet.switches.beforeSigning = undefined;
      await one.press();
      await one.sees(subscribed);
      t.same(
        one.wallet.asked.slice(2),
        ['connect', 'signTransaction'],
        'signed in by the hand-over',
      );
      t.equal(await balance(stage, one.wallet.address), 0n);
    },
  );

  await t.test(
    'a wallet is shown before it signs which approval the subscription replaces',
    async (t) => {
      const gifts = { lamports: 1_000_000n, usdc: 5_000_000n };
      const one = await poorScene(stage, {}, { gifts });
      const delegate = stage.chain.wallet().keypair.publicKey.toBase58();
      await approveForeign(stage, one, delegate);
      await one.press();
      await one.sees('Your USDC account is approved to another program');
      await one.page.getByTitle(delegate).waitFor();
      t.same(one.wallet.asked, ['connect']);
      await inspect(t, one.page, 'sponsored-other-approval');
      await one.press();
      await one.sees(subscribed);
      t.same(one.wallet.asked, ['connect', 'connect', 'signTransaction']);
      t.equal(await one.delegate(), one.authority);
    },
  );

  await t.test(
    'a wallet is asked to pay in SOL when the merchant has turned sponsoring off',
    async () => {
      const one = await poorScene(stage);
      await sponsors(stage, 'off');
      await one.press();
      await one.sees('Your wallet needs more SOL');
      await sponsors(stage, 'on');
      await one.page.getByRole('button', { name: 'Check again' }).click();
      await one.sees(subscribed);
    },
  );

  await t.test(
    'a wallet is shown that it needs SOL when the service refuses the signed transaction',
    async (t) => {
      const one = await poorScene(stage);
      const handOver = '**/checkout/offers/*/transaction';
      await one.page.route(handOver, async (route) => {
        await sponsors(stage, 'off');
        await route.continue();
      });
      await one.press();
      await one.sees('Your wallet needs more SOL');
      await one.sees('What you signed was not sent. Nothing was paid.');
      t.same(one.wallet.asked, ['connect', 'signTransaction'], 'signed in by the hand-over');
      await inspect(t, one.page, 'sponsored-no-longer');
      await one.page.unroute(handOver);
      await sponsors(stage, 'on');
      await one.page.getByRole('button', { name: 'Check again' }).click();
      await one.sees(subscribed);
      t.match(await sponsorships(stage, one.wallet.address), [
        { state: 'refused' },
        { state: 'landed' },
      ]);
    },
  );

  await t.test('a wallet that lacks USDC is not asked for SOL', async (t) => {
    const one = await poorScene(stage, {}, { gifts: { lamports: 0n, usdc: 3_000_000n } });
    await one.press();
    await one.sees('Your wallet needs more USDC');
    t.equal(await one.page.getByRole('row', { name: /SOL/ }).count(), 0);
    await inspect(t, one.page, 'sponsored-short');
    stage.chain.fund(one.wallet.address, { usdc: 2_000_000n });
    stage.chain.mineBlocks(3);
    await one.sees(subscribed);
    t.equal(await balance(stage, one.wallet.address), 0n);
  });

  await t.test(
    "a page that did not get the response with the offer's token still shows the payment",
    async (t) => {
      const one = await poorScene(stage);
      let lost = 0;
      await one.page.route('**/checkout/offers/*/transaction', async (route) => {
        if (lost > 0) return route.continue();
        lost += 1;
        await route.fetch();
        return route.abort();
      });
      await one.press();
      await one.sees(subscribed);
      t.equal(lost, 1);
      t.equal(await one.registrations(), 1);
      t.same(one.wallet.asked, ['connect', 'signTransaction']);
    },
  );

  await t.test(
    'a page that the rate limit refuses waits and then shows the progress',
    async (t) => {
      const one = await poorScene(stage);
      const refusals: string[] = [];
      const refuse = (what: string) => async (route: Route) => {
        if (refusals.includes(what)) return route.continue();
        refusals.push(what);
        // The client itself waits up to 5 seconds; the page waits longer.
        return route.fulfill({
          status: 429,
          headers: { 'retry-after': '6', 'content-type': 'application/json' },
          body: '{"success":false,"data":null,"error":{"code":"RATE_LIMITED","message":"x"}}',
        });
      };
      await one.page.route('**/checkout/offers/*/transaction', refuse('hand-over'));
      await one.page.route('**/checkout/offers/*known=*', refuse('progress'));
      await one.press();
      await one.sees(subscribed);
      t.same(refusals, ['hand-over', 'progress']);
      t.same(one.wallet.asked, ['connect', 'signTransaction']);
      t.equal(await one.registrations(), 1);
    },
  );

  await t.test('a reload while the payment is under way leads to one subscription', async (t) => {
    const one = await poorScene(stage);
    const letGo = await holdProgress(one, 'confirmed');
    await one.press();
    await one.sees('Your payment is confirmed');
    await one.page.goto(`/s/${one.planId}`);
    letGo();
    await one.press();
    await one.page
      .getByText(/You are subscribed/)
      .first()
      .waitFor();
    t.equal(await one.registrations(), 1);
    t.same(one.wallet.asked, ['connect', 'signTransaction', 'connect']);
  });

  await t.test(
    'a wallet without SOL changes its plan on /account and at a checkout link',
    async (t) => {
      const { served } = stage;
      const { sql } = served;
      const { token, appId } = stage.merchant;
      const one = await poorScene(stage, {}, { gifts: { lamports: 0n, usdc: 200_000_000n } });
      const two = await stage.plan({ name: 'Coffee for two', amount: '20000000' });
      const four = await stage.plan({ name: 'Coffee for four', amount: '40000000' });
      await sql`
      update plans set app_id = ${appId} where id in (${one.planId}, ${two.id}, ${four.id})`;
      await one.press();
      await one.sees(subscribed);
      await one.page.goto('/account');
      await one.page.getByRole('button', { name: 'Change plan' }).click();
      await one.page.getByRole('button', { name: /Coffee for two/ }).click();
      const costs = one.page.locator('.change-costs').first();
      const today = async () => {
        const name = costs.locator('dt', { hasText: 'Today' });
        const amount = name.locator('xpath=following-sibling::dd[1]').locator('.amount');
        return Math.round(Number.parseFloat((await amount.getAttribute('title')) ?? '') * 1e6);
      };
      const shown = await today();
      // The user reads for so long that the amounts are no longer those of a transaction.
      stage.chain.passSeconds(7200);
      await one.page.getByRole('button', { name: 'Change now' }).click();
      await one.sees('You change your plan.');
      t.ok((await today()) > shown, 'the page shows the other amounts first');
      t.equal(one.wallet.asked.filter((what) => what === 'signTransaction').length, 1);
      const signed = await today();
      await one.page.getByRole('button', { name: 'Change now' }).click();
      await one.sees('Your plan is changed.');
      const rows = () => sql<{ id: string; replacedBy: string | null; paid: boolean }[]>`
      select id, replaced_by, paid_through is not null as paid from subscriptions
      join subscription_work on subscription_id = id
      where subscriber_wallet = ${one.wallet.address} order by id`;
      const paidLast = async () => {
        const [row] = await sql<[{ paid: number }]>`
        select amount_gross::int as paid from payments
        where subscriber_wallet = ${one.wallet.address} order by id desc limit 1`;
        return row.paid;
      };
      const [first, second] = await rows();
      t.equal(await paidLast(), signed, 'what was shown');
      t.match([first, second], [{ replacedBy: second?.id }, { replacedBy: null, paid: true }]);

      const session = await served.call<{ url: string }>(
        'POST',
        `/merchant/apps/${appId}/checkout-sessions`,
        {
          token,
          body: { planId: four.id, replaces: second?.id },
        },
      );
      await one.page.goto(new URL(session.url).pathname);
      const standing = one.page.waitForResponse((response) =>
        response.url().includes('/standing?'),
      );
      await one.press();
      await one.sees('You change your plan.');
      await one.page.getByRole('heading', { name: 'Change to Coffee for four' }).waitFor();
      const line = (name: string) =>
        one.page.getByRole('term').filter({ hasText: name }).locator('..').innerText();
      t.match(await line('Plan that ends'), 'Coffee for two');
      t.match(await line('Credit for what you have paid'), /\s\d+\.\d\d USDC$/);
      type Standing = components['schemas']['Standing'];
      const { change } = ((await (await standing).json()) as { data: Standing }).data;
      await inspect(t, one.page, 'sponsored-change');
      await one.page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
      await one.sees(subscribed);
      t.match(await rows(), [
        { replacedBy: second?.id },
        { replacedBy: String },
        { replacedBy: null, paid: true },
      ]);
      t.equal(await paidLast(), Number(change?.today), 'what was shown');
      t.equal(await balance(stage, one.wallet.address), 0n, 'no SOL');
      t.same(
        (await sponsorships(stage, one.wallet.address)).map(({ state }) => state),
        ['landed', 'landed', 'landed'],
      );
      t.equal(one.wallet.asked.filter((what) => what === 'signTransaction').length, 3);
    },
  );

  await t.test(
    'a wallet changes its plan in SOL when the service refuses the sponsored transaction',
    async (t) => {
      const { sql } = stage.served;
      const { token, appId } = stage.merchant;
      const gifts = { lamports: 1_000_000_000n, usdc: 200_000_000n };
      const one = await poorScene(stage, {}, { gifts });
      const two = await stage.plan({ name: 'Coffee for two', amount: '20000000' });
      await sql`update plans set app_id = ${appId} where id in (${one.planId}, ${two.id})`;
      await one.press();
      await one.sees(subscribed);
      const [first] = await sql<[{ id: string }]>`
      select id from subscriptions where subscriber_wallet = ${one.wallet.address}`;
      const session = await stage.served.call<{ url: string }>(
        'POST',
        `/merchant/apps/${appId}/checkout-sessions`,
        { token, body: { planId: two.id, replaces: first.id } },
      );
      await one.page.goto(new URL(session.url).pathname);
      await one.press();
      await one.sees('You change your plan.');
      await one.page.route('**/subscriber/offers/*/transaction', async (route) => {
        await sponsors(stage, 'off');
        await route.continue();
      });
      await one.page.getByRole('button', { name: 'Subscribe and pay', exact: true }).click();
      await one.sees(subscribed);
      await sponsors(stage, 'on');
      t.match(await sql`select replaced_by from subscriptions where id = ${first.id}`, [
        { replacedBy: String },
      ]);
      t.same(
        (await sponsorships(stage, one.wallet.address)).map(({ state }) => state),
        ['landed', 'refused'],
      );
    },
  );

  await t.test('the merchant sees the costs of sponsoring and turns it off', async (t) => {
    const { sql } = stage.served;
    const selling = createTestWallet(stage.chain.rpcUrl, stage.merchant.keypairOnChain);
    const { page, faults } = await stage.open({ prepare: (one) => selling.install(one) });
    await page.goto('/dashboard');
    await page.getByRole('button', { name: /Sign in with/ }).click();
    await page.getByRole('heading', { name: 'Paid in SOL by this service' }).waitFor();
    await inspect(t, page, 'dashboard-sponsored');
    await page.getByRole('link', { name: 'Settings' }).click();
    const card = page.getByRole('region', { name: 'Subscribers without SOL' });
    await card.getByRole('button', { name: 'Switch off' }).click();
    await card.getByRole('button', { name: 'Switch on' }).waitFor();
    await inspect(t, page, 'dashboard-sponsorship');
    const [app] = await sql`select sponsorship from apps where id = ${stage.merchant.appId}`;
    t.same(app, { sponsorship: 'off' });
    t.same(faults, []);
  });
});
