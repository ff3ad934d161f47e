// Routes that wait: each takes a place of those that a client and the process have for it.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { newId } from '../../src/db/postgres/ids.ts';
import { insertSponsoredOffer } from '../../src/db/sponsored-offers.ts';
import { createTokens } from '../../src/domain/accounts/tokens.ts';
import { hashSecret } from '../../src/domain/sponsoring/offer.ts';
import { clientAt } from '../fixtures/crowd.ts';
import { jwtSecret, publicUrl, randomAddress } from '../fixtures/http.ts';
import { insertPlan } from '../fixtures/rows.ts';
import { startServe } from '../fixtures/serve.ts';
import { until } from '../fixtures/webhooks.ts';

void t.test('half of the connections of an address may wait, on any route that does', async (t) => {
  const served = await startServe(t, { CONNECTIONS_PER_ADDRESS: '8' });
  const { sql, port } = served;
  const merchant = await served.merchant();
  const planId = await insertPlan(sql, merchant);
  const wallet = randomAddress();
  const tokens = createTokens([jwtSecret], publicUrl);
  const { token } = await tokens.issue({ wallet, role: 'subscriber', page: null });
  const offered = async (secret: string | null) => {
    const id = await newId(sql);
    await insertSponsoredOffer(sql, {
      id,
      purpose: secret === null ? 'cancel' : 'subscribe',
      wallet,
      sponsor: randomAddress(),
      planId,
      subscriptionPda: randomAddress(),
      checkoutSessionId: null,
      address: 'address:127.0.0.9',
      origin: null,
      secretHash: secret === null ? null : hashSecret(secret),
      message: randomBytes(100),
      blockhash: randomAddress(),
      lastValidBlockHeight: 1n,
      blockhashSlot: 1n,
      computeUnits: 1,
      unitPrice: 1n,
      loadedDataBytes: 1,
      withdraws: false,
      replaces: null,
      creditAt: null,
    });
    return id;
  };
  const [own, ofPage] = [await offered(null), await offered('a secret')];
  const app = `/merchant/apps/${merchant.appId}`;
  const { id: webhookId } = await served.call<{ id: string }>('POST', `${app}/webhooks`, {
    token: merchant.token,
    body: { url: 'https://hooks.example/' },
  });
  const [holder, one, other] = [
    clientAt(port, '127.0.0.9'),
    clientAt(port, '127.0.0.9'),
    clientAt(port, '127.0.0.10'),
  ] as const;
  t.teardown(() => [one, other].forEach((client) => client.close()));
  const { text } = await one.get(`${app}/events/next`, merchant.token);
  const { cursor } = (JSON.parse(text) as { data: { cursor: string } }).data;

  const held = Array.from({ length: 5 }, async () => {
    const { status } = await holder.get(`/subscriber/offers/${own}?wait=8&known=offered`, token);
    if (status !== 429) throw new Error(`answered ${status}`);
  });
  await Promise.any(held);
  const probe = () => one.get(`/subscriber/offers/${own}?wait=1&known=offered`, token);
  const transaction = { transaction: 'AA==' };
  const routes = {
    'offer of a wallet': probe,
    'offer of a page': () => one.get(`/checkout/offers/${ofPage}?wait=1&known=offered`, 'a secret'),
    'event feed': () =>
      one.get(`${app}/events/next?wait=1&after=${encodeURIComponent(cursor)}`, merchant.token),
    'relay for wallets': () => one.post('/subscriber/transactions', token, transaction),
    'relay for merchants': () => one.post('/merchant/transactions', merchant.token, transaction),
    sample: () => one.post(`${app}/events/sample`, merchant.token, { type: 'payment_success' }),
    'test of a webhook': () => one.post(`${app}/webhooks/${webhookId}/test`, merchant.token, {}),
    'proof of a website': () => one.post(`${app}/website/verify`, merchant.token, {}),
  };
  for (const [name, ask] of Object.entries(routes))
    t.match(await ask(), { status: 429, text: /of this address or server wait/ }, name);
  t.equal((await one.get(`/subscriber/offers/${own}`, token)).status, 200, 'without waiting');
  t.equal((await one.get(app, merchant.token)).status, 200);
  t.equal((await other.get(`/subscriber/offers/${own}?wait=1`, token)).status, 200);
  holder.close();
  await until(async () => (await probe()).status === 200);
});
