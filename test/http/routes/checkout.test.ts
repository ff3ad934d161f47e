// Checkout sessions: one plan, one customer, one wallet, once.
import t from 'tap';
import type { Keypair } from '../../../src/chain/keypair.ts';
import { type ChainApi, chainApi, testApi } from '../../fixtures/http.ts';
import { insertPlan } from '../../fixtures/rows.ts';

interface Session {
  id: string;
  url: string;
  status: string;
  subscriptionId: string | null;
  subscriberWallet: string | null;
}
interface Relayed {
  status: string;
  subscription: { id: string } | null;
}

function sign(keypair: Keypair, transaction: string): string {
  const bytes = Buffer.from(transaction, 'base64');
  keypair.sign(bytes.subarray(65)).copy(bytes, 1);
  return bytes.toString('base64');
}

async function stage(t: Parameters<typeof chainApi>[0]) {
  const api = await chainApi(t);
  const timer = setInterval(() => api.localnet.mineBlocks(), 50);
  t.teardown(() => clearInterval(timer));
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const session = async (body: Record<string, unknown> = {}) => {
    const path = `/merchant/apps/${merchant.appId}/checkout-sessions`;
    const given = { token: merchant.key, body: { planId: plan.id, ...body } };
    return (await api.call<Session>('POST', path, given)).body.data;
  };
  const read = async (id: string) => {
    const path = `/merchant/apps/${merchant.appId}/checkout-sessions/${id}`;
    return (await api.call<Session>('GET', path, { token: merchant.key })).body.data;
  };
  return { api, merchant, plan, session, read };
}

/** A wallet's signed transaction in a session. */
async function signedIn(api: ChainApi, planId: string, checkoutSessionId: string) {
  const keypair = api.funded();
  const { token, wallet } = await api.signIn('subscriber', keypair);
  const built = await api.call<{ transaction: string; subscriptionPda: string }>(
    'POST',
    `/subscriber/plans/${planId}/subscribe`,
    { token, body: { checkoutSessionId } },
  );
  if (built.status !== 200) throw new Error(JSON.stringify(built.body));
  return { token, wallet, transaction: sign(keypair, built.body.data.transaction) };
}

const send = (api: ChainApi, { token, transaction }: { token: string; transaction: string }) =>
  api.call<Relayed>('POST', '/subscriber/transactions', { token, body: { transaction } });

void t.test(
  'a session leads to a subscription with its ids; a repeated request gets the same response',
  async (t) => {
    const { api, plan, session, read } = await stage(t);
    const ids = { externalId: 'customer-1', metadata: { order_id: '7' } };
    const { id, url, status } = await session(ids);
    t.match({ url, status }, { url: `http://billing.test/checkout/${id}`, status: 'open' });
    const customer = await signedIn(api, plan.id, id);
    const sent = await send(api, customer);
    t.match(sent.body.data, { status: 'confirmed' });
    t.match(await read(id), {
      status: 'complete',
      subscriberWallet: customer.wallet,
      subscriptionId: sent.body.data.subscription?.id,
    });
    t.same((await send(api, customer)).body.data, sent.body.data);
    const [event] = await api.sql<{ body: string }[]>`select body from events`;
    t.match(JSON.parse(event!.body), { type: 'subscription_created', data: ids });
  },
);

void t.test('an app’s sessions are listed newest first, page by page', async (t) => {
  const { api, merchant, session } = await stage(t);
  const made: string[] = [];
  for (let run = 0; run < 3; run += 1) made.unshift((await session()).id);
  const list = `/merchant/apps/${merchant.appId}/checkout-sessions`;
  const first = await api.call<Session[]>('GET', `${list}?limit=2`, { token: merchant.key });
  t.match(first.body.data, [{ status: 'open' }, { id: made[1] }]);
  t.same(
    first.body.data[0],
    await api
      .call<Session>('GET', `${list}/${made[0]!}`, { token: merchant.key })
      .then(({ body }) => body.data),
  );
  const cursor = String(first.headers['x-next-cursor']);
  const rest = await api.call<Session[]>('GET', `${list}?limit=2&cursor=${cursor}`, {
    token: merchant.key,
  });
  t.same(
    rest.body.data.map(({ id }) => id),
    made.slice(2),
  );
  const other = await api.merchant();
  t.equal((await api.call('GET', list, { token: other.key })).status, 403);
});

void t.test(
  'the first of two wallets that sends gets the session, and the other’s transaction is not sent',
  async (t) => {
    const { api, plan, session, read } = await stage(t);
    const { id } = await session();
    const [first, second] = [await signedIn(api, plan.id, id), await signedIn(api, plan.id, id)];
    const answers = await Promise.all([send(api, first), send(api, second)]);
    t.same(answers.map(({ status }) => status).sort(), [200, 409]);
    t.equal((await api.sql`select 1 from subscriptions`).length, 1);
    t.equal((await read(id)).status, 'complete');
    const loser = answers[0].status === 409 ? first : second;
    const standing = await api.call('GET', `/subscriber/plans/${plan.id}/standing`, {
      token: loser.token,
    });
    t.equal(standing.body.data.onChain, 'none', 'the chain has nothing of it');
    const late = await api.signIn('subscriber', api.funded());
    t.match(
      await api.call('POST', `/subscriber/plans/${plan.id}/subscribe`, {
        token: late.token,
        body: { checkoutSessionId: id },
      }),
      { status: 403 },
      'a third wallet gets no transaction',
    );
  },
);

void t.test(
  'an expired, unknown or other plan’s session is refused; a checkout started in time is registered',
  async (t) => {
    const { api, merchant, plan, session, read } = await stage(t);
    const other = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const ask = (planId: string, checkoutSessionId: string) =>
      api.call('POST', `/subscriber/plans/${planId}/subscribe`, {
        token: subscriber.token,
        body: { checkoutSessionId },
      });
    const { id } = await session();
    t.match(await ask(other.id, id), {
      status: 400,
      body: { error: { details: [{ path: 'checkoutSessionId' }] } },
    });
    t.match(await ask(plan.id, '01999999-0000-7000-8000-000000000000'), { status: 400 });
    await api.sql`update checkout_sessions set expires_at = now()`;
    t.match(await ask(plan.id, id), { status: 409 });
    t.equal((await read(id)).status, 'expired');

    const { id: begun } = await session({ externalId: 'late' });
    const customer = await signedIn(api, plan.id, begun);
    await api.sql`update checkout_sessions set expires_at = now(), subscriber_wallet = ${customer.wallet} where id = ${begun}`;
    t.match((await send(api, customer)).body.data, { status: 'confirmed', subscription: {} });
    t.equal((await read(begun)).status, 'complete');
  },
);

void t.test(
  'a subscription that landed after its page closed is registered with its session’s ids',
  async (t) => {
    const { api, merchant, plan, session, read } = await stage(t);
    const { id } = await session({ externalId: 'customer-2' });
    const subscriber = await api.signIn('subscriber', api.funded());
    const subscriptionPda = await api.subscribed(subscriber, plan.id);
    const body = { appId: merchant.appId, planId: plan.id, subscriptionPda, checkoutSessionId: id };
    const { token } = subscriber;
    t.match(
      await api.call('POST', '/subscriber/subscriptions', {
        token,
        body: { ...body, externalId: 'x' },
      }),
      { status: 400, body: { error: { details: [{ path: 'checkoutSessionId' }] } } },
    );
    t.equal((await api.call('POST', '/subscriber/subscriptions', { token, body })).status, 201);
    t.equal((await read(id)).status, 'complete');
    const path = `/merchant/apps/${merchant.appId}/subscriptions?externalId=customer-2`;
    t.match((await api.call('GET', path, { token: merchant.key })).body.data, [
      { subscriptionPda },
    ]);
  },
);

void t.test(
  'return URLs must exactly match the app’s origins; the page gets them with the session’s id',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const planId = await insertPlan(api.sql, merchant);
    const app = `/merchant/apps/${merchant.appId}`;
    const setOrigins = (returnOrigins: unknown) =>
      api.call('PATCH', app, { token: merchant.key, body: { returnOrigins } });
    for (const bad of [
      ['https://a.test/'],
      ['a.test'],
      ['ftp://a.test'],
      ['https://u:p@a.test'],
      ['https://A.test'],
      'https://a.test',
      Array.from({ length: 11 }, (_, n) => `https://${n}.test`),
    ])
      t.equal((await setOrigins(bad)).status, 400, JSON.stringify(bad));
    t.match(await setOrigins(['https://shop.test', 'http://localhost:8080']), { status: 200 });
    const make = (urls: Record<string, string>) =>
      api.call<Session>('POST', `${app}/checkout-sessions`, {
        token: merchant.key,
        body: { planId, ...urls },
      });
    for (const successUrl of [
      'https://evil.test/',
      'https://shop.test.evil.test/',
      'https://shop.test@evil.test/',
      'https://user@shop.test/',
      'http://shop.test/',
      'https://shop.test:444/',
      'javascript:alert(1)',
      '//shop.test/',
      'https://shop.test\\@evil.test/',
    ])
      t.equal((await make({ successUrl })).status, 400, successUrl);
    const made = await make({
      successUrl: 'https://shop.test/done?a=1#top',
      cancelUrl: 'http://localhost:8080/back',
    });
    t.equal(made.status, 201);
    const shown = async () =>
      (await api.call('GET', `/checkout-sessions/${made.body.data.id}`)).body.data;
    t.match(await shown(), {
      status: 'open',
      successUrl: `https://shop.test/done?a=1&session_id=${made.body.data.id}#top`,
      cancelUrl: `http://localhost:8080/back?session_id=${made.body.data.id}`,
      plan: { id: planId },
    });
    t.notOk('externalId' in (await shown()) || 'metadata' in (await shown()));
    await setOrigins([]);
    t.match(
      await shown(),
      { successUrl: null, cancelUrl: null },
      'an origin taken off the app counts at once',
    );
  },
);

void t.test(
  'a session needs an active plan of the app, and one Idempotency-Key creates one session',
  async (t) => {
    const api = await testApi(t);
    const [merchant, other] = [await api.merchant(), await api.merchant()];
    const [planId, foreign] = [
      await insertPlan(api.sql, merchant),
      await insertPlan(api.sql, other),
    ];
    const sunset = await insertPlan(api.sql, merchant, { status: 'sunset' });
    const path = `/merchant/apps/${merchant.appId}/checkout-sessions`;
    const make = (body: Record<string, unknown>, headers = {}) =>
      api.call<Session>('POST', path, { token: merchant.key, body, headers });
    for (const wrong of [foreign, sunset])
      t.match(await make({ planId: wrong }), {
        status: 400,
        body: { error: { details: [{ path: 'planId' }] } },
      });
    const headers = { 'idempotency-key': 'k' };
    const [a, b] = [await make({ planId }, headers), await make({ planId }, headers)];
    t.same(a.body, b.body);
    t.equal((await api.sql`select 1 from checkout_sessions`).length, 1);
    const url = `${path}/${a.body.data.id}`;
    t.equal((await api.call('GET', url, { token: other.key })).status, 403);
  },
);
