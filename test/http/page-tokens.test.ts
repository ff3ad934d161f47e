// What the token of a page allows: a shop's page reaches only its own apps, and a page that creates
// a key or a secret needs a new sign-in.
import { createSecretKey, randomUUID } from 'node:crypto';
import bs58 from 'bs58';
import { SignJWT } from 'jose';
import t from 'tap';
import { generateKeypair } from '../../src/chain/keypair.ts';
import {
  chainApi,
  type ChainApi,
  jwtSecret,
  publicUrl,
  type Signed,
  testApi,
  type TestApi,
} from '../fixtures/http.ts';
import { insertInvoice } from '../fixtures/rows.ts';

const shop = 'https://shop.test';
const desk = 'https://desk.test';
const origins = { corsOrigins: [shop], dashboardOrigins: [desk] };
const missing = '01999999-0000-7000-8000-000000000000';

/** Two merchants, whose plans one wallet has subscribed to; the first one's app names the shop. */
async function twoShops(t: Parameters<typeof chainApi>[0]) {
  const api = await chainApi(t, origins);
  const buyer = await api.signIn('subscriber', api.funded());
  const own = await sold(api, buyer);
  const other = await sold(api, buyer);
  await api.call('PATCH', `/merchant/apps/${own.appId}`, {
    token: own.token,
    body: { returnOrigins: [shop] },
  });
  return { api, buyer, own, other };
}

async function sold(api: ChainApi, buyer: Signed) {
  const merchant = await api.merchant();
  const { appId } = merchant;
  const { id: planId } = await api.publishedPlan(merchant);
  const subscriptionPda = await api.subscribed(buyer, planId);
  const { body } = await api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
    token: buyer.token,
    body: { appId, planId, subscriptionPda },
  });
  const invoiceId = await insertInvoice(api.sql, body.data.id);
  return { ...merchant, planId, subscriptionPda, invoiceId, id: body.data.id };
}

/** Each route under /subscriber that names an app, a plan, a subscription or an invoice. */
const requestsOf = ({ id, planId, appId, ...sale }: Awaited<ReturnType<typeof sold>>) =>
  [
    ['GET', `/subscriptions/${id}`],
    ['GET', `/subscriptions/${id}/transactions`],
    ['GET', `/subscriptions/${id}/plan`],
    ['GET', `/subscriptions/${id}/plans`],
    ['GET', `/subscriptions/${id}/change?planId=${planId}&when=now`],
    ['GET', `/plans/${planId}`],
    ['GET', `/plans/${planId}/standing`],
    ['POST', `/subscriptions/${id}/cancel`],
    ['POST', `/subscriptions/${id}/resume`],
    ['POST', `/subscriptions/${id}/close`],
    ['POST', `/subscriptions/${id}/repair`],
    ['POST', `/subscriptions/${id}/change`, { planId, when: 'now' }],
    ['POST', `/plans/${planId}/subscribe`],
    ['POST', '/subscriptions', { appId, planId, subscriptionPda: sale.subscriptionPda }],
    ['GET', `/subscriptions/${id}/invoices`],
    ['GET', `/invoices/${sale.invoiceId}`],
  ] as const;

const nameOf = ([method, path]: readonly [string, string, object?]) => `${method} ${path}`;

void t.test('a token for a shop’s page reaches only the apps that list its origin', async (t) => {
  const { api, buyer, own, other } = await twoShops(t);
  const bound = await api.signIn('subscriber', buyer.keypair, shop);
  const call = (
    [method, path, body]: ReturnType<typeof requestsOf>[number],
    { token }: Signed = bound,
  ) => api.call(method, `/subscriber${path}`, { token, body });
  const listed = async ({ token }: Signed) => {
    const { body } = await api.call<{ id: string }[]>('GET', '/subscriber/subscriptions', {
      token,
    });
    return body.data.map(({ id }) => id);
  };

  t.same(await listed(bound), [own.id]);
  for (const request of requestsOf(own))
    t.not((await call(request)).status, 403, `its own: ${nameOf(request)}`);
  for (const request of requestsOf(other)) {
    const { status, body } = await call(request);
    t.equal(status, 403, `another’s: ${nameOf(request)}`);
    t.match(body.error?.message, /https:\/\/shop\.test .*returnOrigins/);
  }
  for (const path of ['subscriptions', 'plans'])
    t.equal((await call(['GET', `/${path}/${missing}`] as never)).status, 404, `no such ${path}`);

  for (const origin of [undefined, publicUrl, desk]) {
    const whole = await api.signIn('subscriber', buyer.keypair, origin);
    t.same(await listed(whole), [other.id, own.id], String(origin));
    for (const request of requestsOf(other))
      t.not((await call(request, whole)).status, 403, `${origin}: ${nameOf(request)}`);
  }

  await api.call('PATCH', `/merchant/apps/${own.appId}`, {
    token: own.token,
    body: { returnOrigins: [] },
  });
  t.same(await listed(bound), [], 'the app has taken the origin off');
  t.equal((await call(requestsOf(own)[0])).status, 403);
});

void t.test('a token for a shop’s page cannot sign for other apps', async (t) => {
  const { api, buyer, other } = await twoShops(t);
  const bound = await api.signIn('subscriber', buyer.keypair, shop);
  const post = (path: string, { token }: Signed, body?: unknown) =>
    api.call<{ transaction: string; offerId: string }>('POST', `/subscriber${path}`, {
      token,
      body,
    });
  t.match(await post('/approval/revoke', bound), { status: 403 });
  for (const path of [`/subscriptions/${other.id}/cancel`, '/approval/revoke']) {
    const { transaction, offerId } = (await post(path, buyer)).body.data;
    const bytes = Buffer.from(transaction, 'base64');
    buyer.keypair.sign(bytes.subarray(1 + bytes.readUInt8(0) * 64)).copy(bytes, 1);
    const signed = { transaction: bytes.toString('base64'), offerId };
    t.match(await post('/transactions', bound, signed), { status: 403 }, path);
    const [offer] = await api.sql<{ signature: string | null }[]>`
      select signature from offers where id = ${offerId}`;
    t.equal(offer?.signature, null, 'nothing was sent');
  }
});

void t.test(
  'a sign-in message for a shop binds the token to it, whichever page sends it',
  async (t) => {
    const { api, buyer, other } = await twoShops(t);
    const { wallet, keypair } = buyer;
    const read = async (asked: string | undefined, verifies: string | undefined) => {
      const headersOf = (origin: string | undefined): Record<string, string> =>
        origin === undefined ? {} : { origin };
      const { body } = await api.call<{ nonce: string; message: string }>('POST', '/auth/nonce', {
        body: { wallet, role: 'subscriber' },
        headers: headersOf(asked),
      });
      const { nonce, message } = body.data;
      const signature = bs58.encode(keypair.sign(Buffer.from(message)));
      const verified = await api.call<{ token: string }>('POST', '/auth/verify', {
        body: { wallet, nonce, signature },
        headers: headersOf(verifies),
      });
      const { token } = verified.body.data;
      return (await api.call('GET', `/subscriber/subscriptions/${other.id}`, { token })).status;
    };
    t.equal(await read(shop, undefined), 403, 'the shop’s server verifies');
    t.equal(await read(shop, publicUrl), 403, 'under another name');
    t.equal(await read(undefined, shop), 403, 'the shop’s server asked for the nonce');
    t.equal(
      await read('https://evil.test', 'https://evil.test'),
      403,
      'an origin that is not listed',
    );
    t.equal(await read('null', 'null'), 403, 'a page without an origin');
    t.equal(await read(undefined, undefined), 200, 'a program');
  },
);

const old = async (wallet: string, age: number, page?: string) =>
  new SignJWT({ role: 'merchant', ...(page !== undefined && { page }) })
    .setProtectedHeader({ alg: 'HS256' })
    .setIssuer(publicUrl)
    .setAudience(publicUrl)
    .setSubject(wallet)
    .setIssuedAt(Math.floor(Date.now() / 1000) - age)
    .setExpirationTime('30m')
    .setJti(randomUUID())
    .sign(createSecretKey(jwtSecret, 'utf8'));

async function creations(api: TestApi) {
  const { wallet, token, appId, key } = await api.merchant();
  const webhooks = `/merchant/apps/${appId}/webhooks`;
  const body = { url: 'https://a.test/hook' };
  const made = await api.call<{ id: string }>('POST', webhooks, { token, body });
  const { id } = made.body.data;
  const attempts = [
    ['/merchant/api-keys', 201],
    [`${webhooks}/${id}/rotate-secret`, 200],
    // The app has an endpoint, so this would be CONFLICT.
    [webhooks, 409, body],
  ] as const;
  return { wallet, appId, key, id, attempts };
}

void t.test(
  'a page needs a sign-in of the last five minutes to create a key or a secret',
  async (t) => {
    const api = await testApi(t, origins);
    const { wallet, key, appId, id, attempts } = await creations(api);
    for (const [path, done, body] of attempts) {
      const status = async (token: string) =>
        (await api.call('POST', path, { token, body })).status;
      for (const page of [publicUrl, desk]) {
        const {
          status: refused,
          headers,
          body: said,
        } = await api.call('POST', path, {
          token: await old(wallet, 310, page),
          body,
        });
        t.equal(refused, 401, path);
        t.match(said.error, { code: 'UNAUTHORIZED', message: /sign-in of the last five minutes/ });
        t.equal(
          headers['www-authenticate'],
          'Bearer error="insufficient_user_authentication", max_age="300"',
        );
        t.equal(await status(await old(wallet, 240, page)), done, `${path}, in time`);
      }
      t.equal(await status(await old(wallet, 1700)), done, `${path}, a program’s`);
    }
    const [, rotate, create] = attempts;
    t.equal((await api.call('POST', rotate[0], { token: key })).status, 200, 'an API key');
    t.equal((await api.call('POST', create[0], { token: key, body: create[2] })).status, 409);

    const token = await old(wallet, 1700, publicUrl);
    const { body } = await api.call<{ id: string }[]>('GET', '/merchant/api-keys', { token });
    t.equal(body.success, true, 'reading needs none');
    const revoked = await api.call('DELETE', `/merchant/api-keys/${body.data[0]?.id}`, { token });
    t.equal(revoked.status, 200, 'nor does revoking');
    t.equal(
      (await api.call('DELETE', `/merchant/apps/${appId}/webhooks/${id}`, { token })).status,
      200,
      'nor does deleting an endpoint',
    );
  },
);

void t.test('a page’s token is distinguished from a program’s', async (t) => {
  const api = await testApi(t, origins);
  const keypair = generateKeypair();
  for (const [origin, page] of [
    [undefined, undefined],
    [publicUrl, publicUrl],
    [desk, desk],
  ] as const) {
    const { token } = await api.signIn('merchant', keypair, origin);
    const claims = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()) as object;
    t.match(claims, { page }, String(origin));
    t.equal('page' in claims, page !== undefined);
    t.equal((await api.call('POST', '/merchant/api-keys', { token })).status, 201);
  }
});
