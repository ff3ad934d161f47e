// The pages for buyers in each language: the browser's choice, the switch, dates and amounts.
import t from 'tap';
import type { languages } from '../../src/words/languages.ts';
import { closeBrowser, inspect, startStage } from '../fixtures/browser.ts';
import { createTestWallet } from '../fixtures/page-wallet.ts';

t.teardown(closeBrowser);

/** Texts and amounts that a page in this language shows. */
const shown: Readonly<Record<keyof typeof languages, readonly [title: string, amount: string]>> = {
  en: ['Subscribe to Coffee club', '1,250.00'],
  de: ['Coffee club abonnieren', '1.250,00'],
  es: ['Suscribirse a Coffee club', '1250,00'],
  fr: ['S’abonner à Coffee club', '1\u202f250,00'],
  pt: ['Assinar Coffee club', '1.250,00'],
  ja: ['Coffee clubを購読する', '1,250.00'],
};

/** The button that orders, also a trial, says that this obliges to pay. */
const orders: Readonly<Record<keyof typeof languages, string>> = {
  en: 'Subscribe and pay with Test wallet',
  de: 'Zahlungspflichtig bestellen mit Test wallet',
  es: 'Pedido con obligación de pago (Test wallet)',
  fr: 'Commande avec obligation de paiement (Test wallet)',
  pt: 'Encomenda com obrigação de pagar (Test wallet)',
  ja: 'Test walletで購読する',
};

void t.test(
  'a page is shown in the browser’s language and loads no other language file',
  async (t) => {
    const stage = await startStage(t, { keeper: false });
    const { id } = await stage.plan({ amount: '1250000000', trialHours: 168 });
    for (const [code, [title, amount]] of Object.entries(shown)) {
      const wallet = createTestWallet(stage.chain.rpcUrl, stage.chain.wallet().keypair);
      const { page, faults } = await stage.open({
        locale: code === 'pt' ? 'pt-BR' : code,
        prepare: (one) => wallet.install(one),
      });
      const asked: string[] = [];
      page.on('request', (request) => asked.push(request.url()));
      await page.goto(`/s/${id}`);
      await page.getByRole('heading', { name: title }).waitFor();
      const order = orders[code as keyof typeof orders];
      await page.getByRole('button', { name: order, exact: true }).waitFor();
      t.equal(await page.locator('.price-amount').innerText(), amount, code);
      t.equal((await page.locator('html').getAttribute('lang'))?.slice(0, 2), code);
      t.equal(asked.filter((url) => url.includes('words-')).length, code === 'en' ? 0 : 1);
      await inspect(t, page, `language-${code}-offer`);
      await page.goto('/account');
      await page.getByRole('heading', { level: 1 }).waitFor();
      await inspect(t, page, `language-${code}-account`);
      t.same(faults, [], code);
    }
  },
);

void t.test(
  'an unknown language falls back to English, and a chosen language is kept',
  async (t) => {
    const stage = await startStage(t, { keeper: false });
    const { id } = await stage.plan();
    const wallet = createTestWallet(stage.chain.rpcUrl, stage.chain.wallet({ usdc: 1n }).keypair);
    const { page, faults } = await stage.open({
      locale: 'fi-FI',
      prepare: (one) => wallet.install(one),
    });
    await page.goto(`/s/${id}`);
    await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
    await page.getByText('Your wallet needs more USDC').waitFor();
    await page.getByRole('combobox', { name: 'Language' }).selectOption('de');
    // The page keeps the input that the buyer has begun.
    await page.getByText('Ihre Wallet braucht mehr USDC').waitFor();
    await page.getByText('Angemeldet als').waitFor();
    await page.goto('/account');
    await page.getByRole('heading', { name: 'Ihre Abos', exact: true }).waitFor();
    await page.getByText('Noch keine Abos').waitFor();
    await page.getByRole('combobox', { name: 'Sprache' }).selectOption('ja');
    await page.getByText('まだ購読はありません').waitFor();
    await inspect(t, page, 'language-ja-account-empty');
    await page.reload();
    await page.getByText('まだ購読はありません').waitFor();
    t.same(faults, []);
  },
);

void t.test('a signed-in subscriber’s page is complete in each language', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { id } = await stage.plan();
  const wallet = createTestWallet(stage.chain.rpcUrl, stage.chain.wallet().keypair);
  const { page, faults } = await stage.open({ prepare: (one) => wallet.install(one) });
  await page.goto(`/s/${id}`);
  await page.getByRole('button', { name: /^Subscribe and pay with/ }).click();
  await page.getByText('You are subscribed').first().waitFor();
  await page.goto('/account');
  await page.getByRole('heading', { name: 'Coffee club' }).waitFor();
  for (const code of Object.keys(shown)) {
    await page.getByRole('combobox').selectOption(code);
    await page.locator(`html[lang^=${code}]`).waitFor();
    await inspect(t, page, `language-${code}-account-signed-in`);
  }
  t.same(faults, []);
});

void t.test('a page whose catalogue cannot be loaded is shown in English', async (t) => {
  const stage = await startStage(t, { keeper: false });
  const { id } = await stage.plan();
  const { page } = await stage.open({ locale: 'de', refusals: true });
  await page.route('**/words-*', (route) => route.abort());
  await page.goto(`/s/${id}`);
  await page.getByRole('heading', { name: 'Subscribe to Coffee club' }).waitFor();
  t.equal(await page.locator('html').getAttribute('lang'), 'en');
});
