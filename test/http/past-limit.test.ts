// Past a rate limit, the progress of a sponsored transaction is answered with what is known.
import t from 'tap';
import { createTokens } from '../../src/domain/accounts/tokens.ts';
import { randomAddress, testApi } from '../fixtures/http.ts';
import { insertMerchant, insertOffer, insertPlan } from '../fixtures/rows.ts';
import { until } from '../fixtures/webhooks.ts';

void t.test(
  'past the rate limit, cached progress of an offer is returned only to its wallet or page',
  async (t) => {
    const api = await testApi(t, { requestsPerMinute: { free: 4, pro: 1000 } });
    const { sql } = api;
    const planId = await insertPlan(sql, await insertMerchant(sql));
    const wallet = randomAddress();
    const tokens = createTokens(api.deps.jwtSecrets, api.deps.publicUrl);
    const tokenOf = async (one: string) =>
      (await tokens.issue({ wallet: one, role: 'subscriber', page: null })).token;
    const token = await tokenOf(wallet);
    const own = await insertOffer(sql, { wallet, planId, secret: null, origin: null });
    const another = await insertOffer(sql, { wallet, planId, secret: null, origin: null });
    const secret = 'a-secret';
    const ofPage = await insertOffer(sql, { wallet, planId, secret, origin: null });
    const { origin } = new URL(api.deps.publicUrl);
    const ofService = await insertOffer(sql, { wallet, planId, secret, origin });
    const read = (url: string, credential: string, headers: Record<string, string> = {}) =>
      api.call<{ state: string }>('GET', url, { token: credential, headers });

    // A signed-in wallet has 4 requests, the pages of an address have 24.
    for (const [url, credential, budget] of [
      [`/subscriber/offers/${own}`, token, 4],
      [`/checkout/offers/${ofPage}`, secret, 23],
    ] as const) {
      if (credential === secret) {
        // A page of the service sends its Origin with some requests only.
        const fromOwn = { origin };
        t.equal((await read(`/checkout/offers/${ofService}`, secret, fromOwn)).status, 200);
      }
      for (let n = 0; n < budget; n += 1) t.equal((await read(url, credential)).status, 200);
      const past = await read(`${url}?wait=8&known=offered`, credential);
      t.match(past, { status: 200, body: { data: { state: 'offered' } } }, url);
      t.match(past.headers, { 'retry-after': /^\d+$/, 'ratelimit-remaining': '0' });
    }

    t.equal((await read(`/checkout/offers/${ofService}`, secret)).status, 200, 'without Origin');

    const refused = { status: 429, headers: { 'retry-after': /^\d+$/ } };
    t.match(await read('/subscriber/subscriptions', token), refused);
    t.match(await read(`/subscriber/offers/${another}`, token), refused, 'not read here before');
    t.match(await read(`/checkout/offers/${ofPage}`, 'another-secret'), refused, 'another secret');
    const fromPage = { origin: 'https://shop.test' };
    t.match(await read(`/checkout/offers/${ofPage}`, secret, fromPage), refused, 'another page');
    const stranger = await tokenOf(randomAddress());
    for (let n = 0; n < 4; n += 1)
      t.equal((await read(`/subscriber/offers/${own}`, stranger)).status, 404);
    t.match(await read(`/subscriber/offers/${own}`, stranger), refused, 'another wallet');

    // A change is reported soon.
    await sql`
    update offers set signed = message, signed_at = now()
    where id = any (${[own, ofPage]})`;
    for (const [url, credential] of [
      [`/subscriber/offers/${own}`, token],
      [`/checkout/offers/${ofPage}`, secret],
    ] as const)
      await until(async () => (await read(url, credential)).body.data.state === 'signed');
  },
);
