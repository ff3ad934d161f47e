// Suspended merchants and subscribers: reading, cancelling, closing and revoking stay open.
import t from 'tap';
import { approveMerchant, endSuspension, suspend } from '../../../src/db/accounts/suspensions.ts';
import { chainApi, testApi } from '../../fixtures/http.ts';
import { png } from '../../fixtures/images.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';

const by = { who: 'tester', host: 'here' };
const nobody = '019aa3f2-0000-7000-8000-000000000000';

const refusal = (message: string | RegExp) => ({
  status: 403,
  body: { error: { code: 'FORBIDDEN', message } },
});

void t.test(
  'a suspended merchant can read, cancel and revoke keys; everything else gets FORBIDDEN',
  async (t) => {
    const api = await testApi(t);
    const { sql } = api;
    const [merchant, other] = [await api.merchant(), await api.merchant()];
    const { wallet, appId, token, key } = merchant;
    const planId = await insertPlan(sql, merchant);
    const subscriptionId = await insertSubscription(sql, { appId, planId });
    const account = { role: 'merchant', wallet, reason: 'stolen cards', by } as const;
    t.equal(await suspend(sql, account), true);
    t.equal(await suspend(sql, { ...account, reason: 'phishing' }), false);
    const app = `/merchant/apps/${appId}`;
    const refused = refusal(/suspended.*phishing/);
    const changes: ['POST' | 'PATCH' | 'DELETE', string, unknown?][] = [
      ['POST', '/merchant/apps', { name: 'Another' }],
      ['PATCH', app, { name: 'Another' }],
      ['PATCH', '/merchant/profile', { name: 'Another' }],
      ['POST', `${app}/plans`, { name: 'P', amount: '1000000', periodHours: 24 }],
      ['PATCH', `${app}/plans/${planId}`, { name: 'Another' }],
      ['POST', `${app}/checkout-sessions`, { planId }],
      ['POST', `${app}/webhooks`, { url: 'https://receiver.example' }],
      ['DELETE', `${app}/webhooks/${nobody}`],
      ['POST', `${app}/replays`, { status: 'failed' }],
      ['POST', `${app}/subscriptions/${subscriptionId}/pause`],
      ['POST', '/merchant/transactions', { transaction: 'AAAA' }],
    ];
    for (const [method, path, body] of changes)
      for (const credential of [key, token])
        t.match(await api.call(method, path, { token: credential, body }), refused, path);
    t.match(await api.call('POST', '/merchant/api-keys', { token }), refused);
    t.match(
      await api.call('POST', '/merchant/apps', { token: other.key, body: { name: 'Tea' } }),
      { status: 201 },
      'another merchant is not affected',
    );

    for (const path of [app, `${app}/subscriptions`, '/merchant/profile', `${app}/transactions`])
      t.match(await api.call('GET', path, { token: key }), { status: 200 }, path);
    const cancelled = await api.call('POST', `${app}/subscriptions/${subscriptionId}/cancel`, {
      token: key,
      body: { mode: 'force' },
    });
    t.match(cancelled, { status: 200, body: { data: { status: 'cancelled' } } });
    const keys = await api.call<{ id: string }[]>('GET', '/merchant/api-keys', { token });
    const path = `/merchant/api-keys/${keys.body.data[0]!.id}`;
    t.match(await api.call('DELETE', path, { token }), { status: 200 });

    t.match(await api.call('GET', `/plans/${planId}`), { body: { data: { available: false } } });
    t.equal(await endSuspension(sql, account), true);
    t.equal(await endSuspension(sql, account), false);
    t.match(await api.call('GET', `/plans/${planId}`), { body: { data: { available: true } } });
    t.match(await api.call('PATCH', app, { token, body: { name: 'Another' } }), { status: 200 });
  },
);

void t.test(
  'the public sees no plan of a suspended merchant, its subscribers still see their subscriptions',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { appId, key: token } = merchant;
    const subscriber = await api.signIn('subscriber');
    const stranger = await api.signIn('subscriber');
    const hostile = 'hostile.test';
    const body = {
      name: 'Hostile app',
      description: 'Hostile words',
      websiteUrl: `https://${hostile}/`,
      supportEmail: `help@${hostile}`,
      supportUrl: `https://${hostile}/help`,
      termsUrl: `https://${hostile}/terms`,
      privacyUrl: `https://${hostile}/privacy`,
      returnOrigins: [`https://${hostile}`],
    };
    await api.call('PATCH', `/merchant/apps/${appId}`, { token, body });
    await api.call('PATCH', '/merchant/profile', { token, body: { name: 'Hostile seller' } });
    const planId = await insertPlan(api.sql, merchant, { name: 'Hostile plan' });
    const subscriberWallet = subscriber.wallet;
    const id = await insertSubscription(api.sql, { appId, planId }, { subscriberWallet });
    const session = await api.call<{ id: string }>(
      'POST',
      `/merchant/apps/${appId}/checkout-sessions`,
      { token, body: { planId, cancelUrl: `https://${hostile}/back` } },
    );
    const { logoUrl } = (
      await api.call<{ logoUrl: string }>('POST', `/merchant/apps/${appId}/logo`, {
        token,
        payload: png(8),
        headers: { 'content-type': 'image/png' },
      })
    ).body.data;
    const logo = new URL(logoUrl).pathname;
    const read = async (url: string, bearer?: string) => {
      const headers = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
      return api.app.inject({ method: 'GET', url, headers });
    };
    const publicly = [
      `/plans/${planId}`,
      `/checkout-sessions/${session.body.data.id}`,
      `/s/${planId}`,
    ];
    const terms = `/subscriber/plans/${planId}`;
    const own = `/subscriber/subscriptions/${id}/plan`;
    for (const url of publicly) t.match((await read(url)).payload, /Hostile/, url);
    t.equal((await read(logo)).statusCode, 200);

    const account = { role: 'merchant', wallet: merchant.wallet, reason: 'phishing', by } as const;
    await suspend(api.sql, account);
    for (const url of publicly) {
      const { statusCode, payload } = await read(url);
      t.equal(statusCode, 200, url);
      t.notMatch(payload, /hostile|\/logos\/|og:/i, url);
    }
    t.equal((await read(logo)).statusCode, 404);
    t.notMatch((await read(terms, stranger.token)).payload, /hostile/i);
    t.match((await read(terms, subscriber.token)).payload, /Hostile plan/);
    t.equal((await read(own, stranger.token)).statusCode, 403);
    t.match((await api.call('GET', own, { token: subscriber.token })).body.data, {
      name: 'Hostile plan',
      appName: 'Hostile app',
      supportEmail: body.supportEmail,
      logoUrl: null,
      available: false,
    });
    t.match((await read('/subscriber/subscriptions', subscriber.token)).payload, planId);

    await endSuspension(api.sql, account);
    for (const url of publicly) t.match((await read(url)).payload, /Hostile/, url);
    t.equal((await read(logo)).statusCode, 200);
    t.match((await read(terms, stranger.token)).payload, /Hostile plan/);
  },
);

void t.test(
  'a plan of a suspended merchant takes no subscriber: no transaction, no relay, no registration',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token, keypair } = subscriber;
    const subscribe = () => api.call('POST', `/subscriber/plans/${plan.id}/subscribe`, { token });
    const offered = await subscribe();
    const subscriptionPda = await api.subscribed(subscriber, plan.id);
    const registered = () =>
      api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
        token,
        body: { appId: merchant.appId, planId: plan.id, subscriptionPda },
      });
    const account = { role: 'merchant', wallet: merchant.wallet, reason: 'phishing', by } as const;
    await suspend(api.sql, account);
    const refused = refusal('This plan is not available.');
    t.match(await subscribe(), refused);
    t.match(await registered(), refused);
    const bytes = Buffer.from(String(offered.body.data.transaction), 'base64');
    keypair.sign(bytes.subarray(65)).copy(bytes, 1);
    const body = { transaction: bytes.toString('base64') };
    t.match(await api.call('POST', '/subscriber/transactions', { token, body }), refused);
    t.same(await api.sql`select 1 from subscriptions`, []);

    await endSuspension(api.sql, account);
    const { status, body: made } = await registered();
    t.equal(status, 201);
    await suspend(api.sql, account);
    const cancelling = await api.call('POST', `/subscriber/subscriptions/${made.data.id}/cancel`, {
      token,
    });
    t.match(cancelling, { status: 200 }, 'its subscribers can leave');

    // No subscriber is taken back: neither by a live record nor by an ended one.
    const own = `/subscriber/subscriptions/${made.data.id}`;
    const ended = () => api.sql`
      with ended as (
        update subscriptions set status = 'expired', ended_at = now(), end_reason = 'past_due'
        where id = ${made.data.id} returning id
      )
      update subscription_work set due_at = null, lease_until = null, claim_id = null
      from ended where subscription_id = id`;
    for (const change of ['repair', 'resume'])
      t.match(await api.call('POST', `${own}/${change}`, { token }), refused, change);
    await ended();
    t.match(await api.call('POST', `${own}/resume`, { token }), refused, 'an ended record');
  },
);

void t.test(
  'a suspended subscriber can read, cancel and close, but neither subscribe nor resume',
  async (t) => {
    const api = await chainApi(t);
    const timer = setInterval(() => api.localnet.mineBlocks(), 50);
    t.teardown(() => clearInterval(timer));
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token, wallet, keypair } = subscriber;
    const subscriptionPda = await api.subscribed(subscriber, plan.id);
    const body = { appId: merchant.appId, planId: plan.id, subscriptionPda };
    const made = await api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
      token,
      body,
    });
    const own = `/subscriber/subscriptions/${made.body.data.id}`;
    const account = { role: 'subscriber', wallet, reason: 'chargebacks', by } as const;
    await suspend(api.sql, account);
    const refused = refusal(/suspended.*chargebacks/);
    for (const path of [`/subscriber/plans/${plan.id}/subscribe`, `${own}/repair`])
      t.match(await api.call('POST', path, { token }), refused, path);
    t.match(await api.call('POST', '/subscriber/subscriptions', { token, body }), refused);
    t.match(await api.call('GET', own, { token }), { status: 200 });
    const cancelling = await api.call<{ transaction: string }>('POST', `${own}/cancel`, { token });
    t.match(cancelling, { status: 200 });
    const bytes = Buffer.from(cancelling.body.data.transaction, 'base64');
    keypair.sign(bytes.subarray(65)).copy(bytes, 1);
    const sent = await api.call('POST', '/subscriber/transactions', {
      token,
      body: { transaction: bytes.toString('base64') },
    });
    t.match(sent, { status: 200, body: { data: { status: 'confirmed' } } });
    t.match(await api.call('POST', `${own}/resume`, { token }), refused);
    const asMerchant = await api.signIn('merchant', keypair);
    t.match(
      await api.call('POST', '/merchant/apps', {
        token: asMerchant.token,
        body: { name: 'Mine' },
      }),
      { status: 201 },
      'the other role of the wallet is another account',
    );
    await endSuspension(api.sql, account);
    const resuming = await api.call<{ transaction: string }>('POST', `${own}/resume`, { token });
    t.match(resuming, { status: 200 });

    // The merchant is suspended before the wallet sends the transaction.
    const seller = { ...account, role: 'merchant', wallet: merchant.wallet } as const;
    await suspend(api.sql, seller);
    const late = Buffer.from(resuming.body.data.transaction, 'base64');
    keypair.sign(late.subarray(65)).copy(late, 1);
    t.match(
      await api.call('POST', '/subscriber/transactions', {
        token,
        body: { transaction: late.toString('base64') },
      }),
      refusal('This plan is not available.'),
    );
  },
);

void t.test(
  'MERCHANTS=approval: a new merchant can only read until it is approved; earlier ones continue',
  async (t) => {
    const api = await testApi(t, { merchants: 'approval' });
    const create = (token: string) =>
      api.call('POST', '/merchant/apps', { token, body: { name: 'Coffee' } });
    const fresh = await api.signIn('merchant');
    t.match(await create(fresh.token), refusal(/waits for the approval of the operator/));
    t.match(await api.call('GET', '/merchant/apps', { token: fresh.token }), { status: 200 });
    await api.signIn('merchant', fresh.keypair);
    t.match(await create(fresh.token), { status: 403 }, 'a second sign-in changes nothing');
    const approval = { wallet: fresh.wallet, reason: null, by };
    t.equal(await approveMerchant(api.sql, approval), 'approved');
    t.match(await create(fresh.token), { status: 201 });
    t.equal(await approveMerchant(api.sql, approval), 'already');

    const invited = await api.signIn('subscriber');
    t.equal(await approveMerchant(api.sql, { ...approval, wallet: invited.wallet }), 'created');
    const arrived = await api.signIn('merchant', invited.keypair);
    t.match(await create(arrived.token), { status: 201 });
    const account = { role: 'merchant', wallet: fresh.wallet, reason: 'fraud', by } as const;
    await suspend(api.sql, account);
    t.equal(await approveMerchant(api.sql, approval), 'suspended');
    t.match(await create(fresh.token), refusal(/fraud/));
    t.equal((await api.signIn('subscriber')).token.length > 0, true, 'subscribers need none');
  },
);
