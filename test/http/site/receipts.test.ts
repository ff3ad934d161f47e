// Receipts: who sees them, what they show, and which of the details that a buyer types are stored.
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { catalogues } from '../../../src/words/catalogues.ts';
import { randomAddress, testApi, type TestApi } from '../../fixtures/http.ts';
import { insertPayment, insertPlan, insertSubscription } from '../../fixtures/rows.ts';

const form = { 'content-type': 'application/x-www-form-urlencoded' };
const typed = (fields: Record<string, string>) => new URLSearchParams(fields).toString();

/** A merchant with a subscription, and the path of a payment's receipt. */
async function stage(api: TestApi) {
  const merchant = await api.merchant();
  const subscriber = await api.signIn('subscriber');
  const planId = await insertPlan(api.sql, merchant, { name: '<Beans> & {date}' });
  const subscriptionId = await insertSubscription(
    api.sql,
    { appId: merchant.appId, planId },
    { subscriberWallet: subscriber.wallet },
  );
  const pay = async (at: string, fields: Record<string, unknown> = {}) => {
    const id = await insertPayment(api.sql, subscriptionId, at, fields);
    const { body } = await api.call<{ receiptUrl: string | null }>(
      'GET',
      `/merchant/apps/${merchant.appId}/transactions/${id}`,
      { token: merchant.token },
    );
    return { id, path: new URL(body.data.receiptUrl ?? 'http://none').pathname };
  };
  const profile = (body: object) =>
    api.call('PATCH', '/merchant/profile', { token: merchant.token, body });
  return { merchant, subscriber, subscriptionId, pay, profile };
}

void t.test(
  'a receipt shows seller, payment and refunds, and can only be found by its URL',
  async (t) => {
    const api = await testApi(t, { cluster: 'devnet' });
    const { merchant, subscriber, subscriptionId, pay, profile } = await stage(api);
    const signature = `${randomAddress()}${randomAddress()}`;
    const { id, path } = await pay('2026-02-01T10:00:00Z', { txSignature: signature });
    const failed = await pay('2026-01-01', { failureReason: 'insufficient_funds' });
    t.equal(failed.path, '/', 'a failed payment has no receipt');
    await api.sql`
    insert into refunds (app_id, payment_id, subscription_id, amount, reference, status,
      tx_signature, occurred_at)
    values (${merchant.appId}, ${id}, ${subscriptionId}, 1500000, ${randomUUID()}, 'succeeded',
      'refund1', '2026-02-10T10:00:00Z')`;
    await api.sql`update payments set amount_refunded = 1500000 where id = ${id}`;
    const saved = await profile({
      legalName: 'Coffee & Söhne',
      legalAddress: '1 High Street\nLondon',
      taxId: 'GB 123',
    });
    t.match(saved.body.data, { legalName: 'Coffee & Söhne', keepBuyerDetails: false });

    const own = await api.call<{ receiptUrl: string | null; status: string }[]>(
      'GET',
      `/subscriber/subscriptions/${subscriptionId}/transactions`,
      { token: subscriber.token },
    );
    t.same(
      own.body.data.map(({ receiptUrl }) => receiptUrl),
      [`http://billing.test${path}`, null],
    );
    const page = await api.call('GET', path);
    t.equal(page.status, 200);
    t.match(page.headers, {
      'cache-control': 'private, no-store',
      'referrer-policy': 'no-referrer',
      'x-robots-tag': 'noindex, nofollow',
      'content-security-policy': /default-src 'none'; script-src 'self'.*form-action 'self'/,
    });
    for (const shown of [
      'Coffee &#38; Söhne',
      '1 High Street<br>London',
      'GB 123',
      '&#60;Beans&#62; &#38; {date}',
      '10.00 USDC',
      '-1.50 USDC',
      '8.50 USDC',
      'Solana devnet',
      merchant.wallet,
      subscriber.wallet,
      `https://explorer.solana.com/tx/${signature}?cluster=devnet`,
      id,
    ])
      t.ok(page.text.includes(shown), shown);
    t.notMatch(page.text, /<Beans>|style=|<script(?! type="module" src="\/assets\/)/);

    const [, , , reference = '', token = ''] = path.split('/');
    for (const wrong of [
      path.slice(0, -1),
      path.replace(token, token.toLowerCase()),
      path.replace(reference, 'x'),
      path.replace(subscriptionId, randomUUID()),
      path.replace(subscriptionId, 'x'),
    ]) {
      const absent = await api.call('GET', wrong);
      t.equal(absent.status, 404, wrong);
      t.match(absent.headers['content-type'], /^text\/html/);
      t.ok(absent.text.includes(catalogues.en.receipts.unknown));
      t.equal((await api.call('POST', wrong, { payload: 'name=x', headers: form })).status, 404);
    }
  },
);

void t.test(
  'buyer details that are entered for a receipt are stored only if the merchant stores them',
  async (t) => {
    const api = await testApi(t);
    const { pay, profile } = await stage(api);
    const [first, second] = [await pay('2026-01-01'), await pay('2026-02-01')];
    const post = (path: string, fields: Record<string, string>) =>
      api.call('POST', path, { payload: typed(fields), headers: form });
    const text = async (path: string) => (await api.call('GET', path)).text;
    const rows = async () => (await api.sql`select from receipt_details`).length;

    const unsaved = await post(first.path, {
      name: 'Alice <b>',
      address: 'A\r\n\u202eB',
      note: '',
    });
    t.equal(unsaved.status, 200);
    t.ok(unsaved.text.includes('<strong>Alice &#60;b&#62;</strong>'));
    t.ok(unsaved.text.includes('<p>A<br>B</p>'), 'hidden characters are removed');
    t.ok(unsaved.text.includes(catalogues.en.receipts.printNow));
    t.equal(await rows(), 0);
    t.notMatch(await text(first.path), /Alice/);

    await profile({ keepBuyerDetails: true });
    const saved = await post(`${second.path}?lang=de`, { name: 'Alice', taxId: 'DE 1' });
    t.match(saved, { status: 303, headers: { location: `${second.path}?lang=de` } });
    t.match(await text(second.path), /<strong>Alice<\/strong>/);
    t.notMatch(await text(first.path), /Alice/, 'an earlier receipt does not change');
    await post(first.path, { name: 'Bob' });
    t.match(await text(first.path), /<strong>Bob<\/strong>/);
    t.match(await text(second.path), /<strong>Alice<\/strong>/);
    const third = await pay('2026-03-01');
    t.match(await text(third.path), /Alice[^]*DE 1/, 'a later receipt has the newest ones');
    await post(third.path, {});
    t.notMatch(await text(third.path), /Alice/, 'and may be blank');

    const long = await post(third.path, { note: '€'.repeat(501) });
    t.equal(long.status, 400);
    t.match(long.text, /role="alert"[^]*at most 500 characters/);
    t.equal((await post(third.path, { address: '€'.repeat(500) })).status, 303);
    const broken = { payload: 'name=%ff%fe', headers: form };
    t.equal((await api.call('POST', third.path, broken)).status, 400, 'not UTF-8');
    t.equal((await api.call('POST', third.path, { body: { name: 'x' } })).status, 400, 'JSON');

    t.equal(await rows(), 3);
    await profile({ keepBuyerDetails: false });
    t.equal(await rows(), 0, 'a merchant that stops keeping them has none');
    t.notMatch(await text(second.path), /Alice/);
  },
);

void t.test(
  'a period that a credit paid has a receipt, and receipts exist in six languages',
  async (t) => {
    const api = await testApi(t);
    const { pay } = await stage(api);
    const { path } = await pay('2026-01-01', {
      source: 'credit',
      txSignature: null,
      amountGross: '0',
      platformFee: '0',
      amountNet: '0',
      creditSpent: '4000000',
    });
    const { text } = await api.call('GET', path);
    t.match(text, /<dt>Paid with credit<\/dt>[^]*4\.00 USDC/);
    for (const [code, { receipts: words }] of Object.entries(catalogues)) {
      const byHeader = await api.call('GET', path, { headers: { 'accept-language': code } });
      const byLink = await api.call('GET', `${path}?lang=${code}`);
      t.equal(byLink.text, byHeader.text, code);
      t.ok(byLink.text.includes(`<html lang="${code}">`) && byLink.text.includes(words.details));
    }
  },
);
