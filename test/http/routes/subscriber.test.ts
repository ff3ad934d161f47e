import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { tokenAccountIn } from '../../../src/chain/program/accounts.ts';
import { authorityAddress, tokenAccountAddress } from '../../../src/chain/program/addresses.ts';
import { type Instruction, revokeAuthority } from '../../../src/chain/program/instructions.ts';
import { unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { revokeApproval } from '../../../src/chain/transactions/system-instructions.ts';
import {
  chainApi,
  randomAddress,
  testApi,
  type ChainApi,
  type Signed,
} from '../../fixtures/http.ts';
import { insertSubscription } from '../../fixtures/rows.ts';

interface Subscription {
  id: string;
  status: string;
  [field: string]: unknown;
}

async function registered(
  api: ChainApi,
  subscriber: Signed,
  appId: string,
  planId: string,
): Promise<Subscription> {
  const subscriptionPda = await api.subscribed(subscriber, planId);
  const { status, body } = await api.call<Subscription>('POST', '/subscriber/subscriptions', {
    token: subscriber.token,
    body: { appId, planId, subscriptionPda },
  });
  if (status !== 201) throw new Error(`not registered: ${JSON.stringify(body)}`);
  return body.data;
}

void t.test(
  'a subscriber reads the terms, subscribes, registers and reads its subscription back',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token } = subscriber;

    const terms = await api.call('GET', `/subscriber/plans/${plan.id}`, { token });
    t.match(terms.body.data, {
      id: plan.id,
      status: 'active',
      amount: '10000000',
      periodHours: 24,
      planPda: plan.planPda,
    });

    const subscriptionPda = await api.subscribed(subscriber, plan.id);
    const body = { appId: merchant.appId, planId: plan.id, subscriptionPda };
    const created = await api.call<Subscription>('POST', '/subscriber/subscriptions', {
      token,
      body,
    });
    t.equal(created.status, 201);
    t.match(created.body, {
      success: true,
      data: { ...body, subscriberWallet: subscriber.wallet, merchantWallet: merchant.wallet },
    });
    t.match(created.body.data, {
      status: 'active',
      amount: '10000000',
      periodHours: 24,
      paidThrough: null,
      cancelRequestedAt: null,
    });
    const due = Date.parse(String(created.body.data.nextPaymentDue)) / 1000;
    t.equal(BigInt(due), await api.chainNow(), 'the first payment is due at once, by chain time');
    t.equal(api.woken.keepers, 1, 'keepers are woken');

    const { id } = created.body.data;
    t.same(
      (await api.call('GET', `/subscriber/subscriptions/${id}`, { token })).body.data,
      created.body.data,
    );
    t.same((await api.call('GET', '/subscriber/subscriptions', { token })).body.data, [
      created.body.data,
    ]);
    t.same(
      (await api.call('GET', `/subscriber/subscriptions/${id}/transactions`, { token })).body.data,
      [],
    );
    const events = await api.sql<
      { type: string; body: string }[]
    >`select type, body from events where subscription_id = ${id}`;
    t.equal(events.length, 1);
    t.match(JSON.parse(events[0]!.body), {
      type: 'subscription_created',
      data: {
        subscriptionId: id,
        planId: plan.id,
        subscriberWallet: subscriber.wallet,
        appId: merchant.appId,
        sequence: 1,
        status: 'active',
      },
    });
  },
);

void t.test('a subscribe request states how much USDC and SOL the wallet lacks', async (t) => {
  const api = await chainApi(t);
  const plan = await api.publishedPlan(await api.merchant());
  const keypair = generateKeypair();
  const { token } = await api.signIn('subscriber', keypair);
  const warnings = async () => {
    const path = `/subscriber/plans/${plan.id}/subscribe`;
    const answer = await api.call<{ warnings: Record<string, string>[] }>('POST', path, { token });
    t.equal(answer.status, 200);
    return answer.body.data.warnings;
  };
  const [sol, usdc] = await warnings();
  t.match(sol, { code: 'sol_missing', message: /^The wallet has 0\.00 SOL/ });
  t.match(usdc, {
    code: 'usdc_missing',
    message: /^The wallet has 0\.00 USDC and the first payment takes 10\.00 USDC/,
    missing: '10000000',
  });
  api.localnet.fund(keypair.address, { lamports: BigInt(sol!.missing!), usdc: 9_000_000n });
  api.localnet.mineBlocks(3);
  t.match(await warnings(), [{ code: 'usdc_missing', missing: '1000000' }]);
  api.localnet.fund(keypair.address, { usdc: 1_000_000n });
  api.localnet.mineBlocks(3);
  t.same(await warnings(), []);
});

void t.test('registration fails unless the on-chain account matches', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const other = await api.publishedPlan(merchant, { name: 'Other', amount: '5' });
  const subscriber = await api.signIn('subscriber', api.funded());
  const stranger = await api.signIn('subscriber', api.funded());
  const subscriptionPda = await api.subscribed(subscriber, plan.id);
  const strangerPda = await api.subscribed(stranger, plan.id);
  const valid = { appId: merchant.appId, planId: plan.id, subscriptionPda };
  const register = (body: Record<string, unknown>, { token } = subscriber) =>
    api.call<Subscription>('POST', '/subscriber/subscriptions', {
      token,
      body: { ...valid, ...body },
    });
  const missing = '01999999-0000-7000-8000-000000000000';

  await t.test('registering an address without an account fails with NOT_FOUND', async (t) => {
    t.match(await register({ subscriptionPda: randomAddress() }), {
      status: 404,
      body: { error: { code: 'NOT_FOUND' } },
    });
  });
  await t.test(
    'registering with an app or plan that does not exist fails with NOT_FOUND',
    async (t) => {
      t.equal((await register({ appId: missing })).status, 404);
      t.equal((await register({ planId: missing })).status, 404);
    },
  );
  await t.test('registering another wallet’s subscription fails with FORBIDDEN', async (t) => {
    t.match(await register({ subscriptionPda: strangerPda }), {
      status: 403,
      body: { error: { code: 'FORBIDDEN' } },
    });
  });
  await t.test(
    'registering an address that is not the PDA of plan and wallet fails with VALIDATION_ERROR',
    async (t) => {
      t.match(await register({ planId: other.id }), {
        status: 400,
        body: { error: { details: [{ path: 'subscriptionPda' }] } },
      });
      t.match(await register({ subscriptionPda: plan.planPda }), {
        status: 400,
        body: { error: { details: [{ path: 'subscriptionPda' }] } },
      });
      t.match(
        await register({ subscriptionPda: subscriber.wallet }),
        { status: 404 },
        'a wallet is an account without data: no subscription',
      );
    },
  );
  await t.test('registering with a plan of another app fails with VALIDATION_ERROR', async (t) => {
    const created = await api.call<{ id: string }>('POST', '/merchant/apps', {
      token: merchant.token,
      body: { name: 'Second' },
    });
    t.match(await register({ appId: created.body.data.id }), {
      status: 400,
      body: { error: { details: [{ path: 'planId' }] } },
    });
  });
  await t.test(
    'registering an account whose terms differ from the plan fails with VALIDATION_ERROR',
    async (t) => {
      await api.sql`update plans set amount = amount + 1 where id = ${plan.id}`;
      t.match(await register({}), { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } });
      await api.sql`update plans set amount = amount - 1, chain_created_at = chain_created_at - interval '1 second' where id = ${plan.id}`;
      t.match(
        await register({}),
        { status: 400, body: { error: { code: 'VALIDATION_ERROR' } } },
        'a plan created again is another plan',
      );
      await api.sql`update plans set chain_created_at = chain_created_at + interval '1 second' where id = ${plan.id}`;
    },
  );
  await t.test('a sunset plan accepts no new registrations', async (t) => {
    await api.sql`update plans set status = 'sunset' where id = ${plan.id}`;
    t.match(await register({}), {
      status: 400,
      body: { error: { details: [{ path: 'planId' }] } },
    });
    await api.sql`update plans set status = 'active' where id = ${plan.id}`;
  });
  await t.test('refused registrations store no row', async (t) => {
    t.same(await api.sql`select 1 from subscriptions`, []);
    t.same(await api.sql`select 1 from events`, []);
  });
  await t.test(
    'a second live registration of a PDA gets CONFLICT; after the first has ended it is allowed',
    async (t) => {
      const answers = await Promise.all([register({}), register({}), register({})]);
      t.same(answers.map(({ status }) => status).sort(), [201, 409, 409]);
      t.equal((await register({})).status, 409);
      t.equal((await api.sql`select 1 from events`).length, 1);
      await api.sql`update subscriptions set status = 'expired', ended_at = now()`;
      await api.sql`update subscription_work set due_at = null`;
      t.equal((await register({})).status, 201);
    },
  );
  await t.test('registering a cancelled account fails with VALIDATION_ERROR', async (t) => {
    const own = await register({ subscriptionPda: strangerPda }, stranger);
    t.equal(own.status, 201);
    const path = `/subscriber/subscriptions/${own.body.data.id}`;
    const cancel = await api.call<{ transaction: string }>('POST', `${path}/cancel`, {
      token: stranger.token,
    });
    await api.submit(stranger.keypair, cancel.body.data.transaction);
    await api.sql`update subscriptions set status = 'expired', ended_at = now() where id = ${own.body.data.id}`;
    await api.sql`update subscription_work set due_at = null where subscription_id = ${own.body.data.id}`;
    t.match(await register({ subscriptionPda: strangerPda }, stranger), {
      status: 400,
      body: { error: { details: [{ path: 'subscriptionPda' }] } },
    });
  });
});

void t.test(
  'registering a subscription opened in the last second of its plan fails: no period is left to pay',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const end = (await api.chainNow()) + 30n * 3600n;
    const endsAt = new Date(Number(end) * 1000).toISOString();
    const plan = await api.publishedPlan(merchant, { endsAt });
    const { token, keypair } = await api.signIn('subscriber', api.funded());
    const opening = await api.call<{ transaction: string; subscriptionPda: string }>(
      'POST',
      `/subscriber/plans/${plan.id}/subscribe`,
      { token },
    );
    const { transaction, subscriptionPda } = opening.body.data;
    api.localnet.timeTravel({ absoluteTimestamp: Number(end) * 1000 });
    await api.submit(keypair, transaction);
    t.equal(await api.chainNow(), end, 'the program lets a wallet subscribe in that second');
    const body = { appId: merchant.appId, planId: plan.id, subscriptionPda };
    t.match(await api.call('POST', '/subscriber/subscriptions', { token, body }), {
      status: 400,
      body: { error: { details: [{ path: 'planId', message: 'has ended' }] } },
    });
    t.same(await api.sql`select 1 from subscriptions`, []);
  },
);

void t.test(
  'registering while the chain is unreachable gets 500 with this reason and stores no row',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const subscriber = await api.signIn('subscriber');
    const planId = await insertPlan(api, merchant);
    const body = { appId: merchant.appId, planId, subscriptionPda: randomAddress() };
    const answer = await api.call('POST', '/subscriber/subscriptions', {
      token: subscriber.token,
      body,
    });
    t.match(answer, {
      status: 503,
      headers: { 'retry-after': '5' },
      body: {
        success: false,
        data: null,
        error: { code: 'INTERNAL_ERROR', message: /Solana network cannot be reached/ },
      },
    });
    t.notMatch(answer.text, /127\.0\.0\.1|ECONNREFUSED/, 'and nothing of our insides');
    t.same(await api.sql`select 1 from subscriptions`, []);
  },
);

async function insertPlan(
  api: Pick<ChainApi, 'sql'>,
  { appId, wallet }: { appId: string; wallet: string },
): Promise<string> {
  const [row] = await api.sql<{ id: string }[]>`
    insert into plans (app_id, name, plan_pda, chain_plan_id, owner, mint, treasury, puller, amount, period_hours, status, chain_created_at)
    values (${appId}, 'Plan', ${randomAddress()}, 1, ${wallet}, 'mint', 'treasury', 'puller', 100, 24, 'active', now())
    returning id`;
  return row!.id;
}

void t.test(
  'cancel, resume and close give the transaction to sign; the chain decides',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token } = subscriber;
    const { id } = await registered(api, subscriber, merchant.appId, plan.id);
    const ask = (verb: string) =>
      api.call<{ transaction: string }>('POST', `/subscriber/subscriptions/${id}/${verb}`, {
        token,
      });

    t.match(await ask('resume'), { status: 409 }, 'there is no cancel to take back');
    t.match(await ask('close'), { status: 409 }, 'it has not ended');
    await api.submit(subscriber.keypair, (await ask('cancel')).body.data.transaction);
    t.match(await ask('cancel'), { status: 409 }, 'it is cancelled already');
    await api.submit(subscriber.keypair, (await ask('resume')).body.data.transaction);
    await api.submit(subscriber.keypair, (await ask('cancel')).body.data.transaction);
    api.localnet.timeTravel({ absoluteTimestamp: api.localnet.now() + 25 * 3600_000 });
    api.localnet.mineBlocks(3);
    t.match(await ask('resume'), { status: 409 }, 'it is too late');
    const reopened = await api.call('POST', `/subscriber/plans/${plan.id}/subscribe`, { token });
    t.equal(reopened.status, 200, 'an ended subscription can be opened anew');
    await api.submit(subscriber.keypair, (await ask('close')).body.data.transaction);
    t.match(await ask('cancel'), { status: 409, body: { error: { message: /not on chain/ } } });
  },
);

void t.test(
  'a wallet that is subscribed on chain gets CONFLICT instead of a transaction that must fail',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const subscriptionPda = await api.subscribed(subscriber, plan.id);
    const refused = async (message: RegExp) =>
      t.match(
        await api.call('POST', `/subscriber/plans/${plan.id}/subscribe`, {
          token: subscriber.token,
        }),
        { status: 409, body: { error: { code: 'CONFLICT', message } } },
      );
    await refused(/already: register it with POST \/subscriber\/subscriptions, unless GET /);
    const registered = await api.call('POST', '/subscriber/subscriptions', {
      token: subscriber.token,
      body: { appId: merchant.appId, planId: plan.id, subscriptionPda },
    });
    t.equal(registered.status, 201);
    await refused(/already: it is registered, and GET \/subscriber\/subscriptions lists it\.$/);
  },
);

void t.test('a subscriber only sees its own subscriptions', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const planId = await insertPlan(api, merchant);
  const [mine, other] = [await api.signIn('subscriber'), await api.signIn('subscriber')];
  const ids: string[] = [];
  for (const { wallet } of [mine, other]) {
    const of = { appId: merchant.appId, planId };
    const terms = { subscriberWallet: wallet, amount: '100', periodHours: 24 };
    ids.push(await insertSubscription(api.sql, of, terms));
  }
  const listed = await api.call<Subscription[]>('GET', '/subscriber/subscriptions', {
    token: mine.token,
  });
  t.same(
    listed.body.data.map(({ id }) => id),
    [ids[0]],
  );
  for (const [method, suffix] of [
    ['GET', ''],
    ['GET', '/transactions'],
    ['POST', '/cancel'],
    ['POST', '/resume'],
    ['POST', '/close'],
  ] as const) {
    const path = `/subscriber/subscriptions/${ids[1]}${suffix}`;
    t.match(
      await api.call(method, path, { token: mine.token }),
      { status: 403, body: { error: { code: 'FORBIDDEN' } } },
      `${method} ${path}`,
    );
    const missing = `/subscriber/subscriptions/01999999-0000-7000-8000-000000000000${suffix}`;
    t.equal(
      (await api.call(method, missing, { token: mine.token })).status,
      404,
      `${method} ${missing}`,
    );
  }
});

void t.test(
  'invalid input is refused with the field’s name before the chain is read',
  async (t) => {
    const api = await testApi(t);
    const { token } = await api.signIn('subscriber');
    const valid = {
      appId: '01999999-0000-7000-8000-000000000000',
      planId: '01999999-0000-7000-8000-000000000000',
      subscriptionPda: generateKeypair().address,
    };
    const cases: [string, unknown][] = [
      ['appId', 5],
      ['appId', 'x'],
      ['planId', null],
      ['planId', valid.planId.replace('01', '0G')],
      ['subscriptionPda', '0OIl'],
      ['subscriptionPda', 'a'.repeat(100)],
      ['subscriptionPda', `${generateKeypair().address}\0`],
      ['extra', 1],
    ];
    for (const [path, value] of cases) {
      const { status, body } = await api.call('POST', '/subscriber/subscriptions', {
        token,
        body: { ...valid, [path]: value },
      });
      t.equal(status, 400, `${path}: ${JSON.stringify(value)}`);
      t.match(body, {
        success: false,
        data: null,
        error: { code: 'VALIDATION_ERROR', details: [{ path }] },
      });
    }
    for (const field of ['appId', 'planId', 'subscriptionPda'] as const) {
      const rest = Object.fromEntries(Object.entries(valid).filter(([name]) => name !== field));
      t.match(await api.call('POST', '/subscriber/subscriptions', { token, body: rest }), {
        status: 400,
        body: { error: { details: [{ path: field, message: 'is required' }] } },
      });
    }
  },
);

/**
 * Cancels on chain, waits for the end and subscribes again: another account at the same address.
 */
async function resubscribe(
  api: ChainApi,
  subscriber: Signed,
  { id, planId }: { id: string; planId: string },
): Promise<void> {
  const { token, keypair } = subscriber;
  const cancel = await api.call<{ transaction: string }>(
    'POST',
    `/subscriber/subscriptions/${id}/cancel`,
    { token },
  );
  await api.submit(keypair, cancel.body.data.transaction);
  api.localnet.timeTravel({ absoluteTimestamp: api.localnet.now() + 25 * 3600_000 });
  api.localnet.mineBlocks(3);
  await api.subscribed(subscriber, planId);
}

void t.test('a new account at the address ends the open registration of the old one', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const subscriber = await api.signIn('subscriber', api.funded());
  const old = await registered(api, subscriber, merchant.appId, plan.id);
  const body = {
    appId: merchant.appId,
    planId: plan.id,
    subscriptionPda: old.subscriptionPda,
  };
  const register = () =>
    api.call<Subscription>('POST', '/subscriber/subscriptions', { token: subscriber.token, body });
  await resubscribe(api, subscriber, { id: old.id, planId: plan.id });
  const answers = await Promise.all([register(), register()]);
  t.same(answers.map(({ status }) => status).sort(), [201, 409], 'two at once');
  const { data } = answers.find(({ status }) => status === 201)!.body;
  t.match(data, { status: 'active', paidThrough: null });
  t.not(data.id, old.id);
  const ended = await api.call('GET', `/subscriber/subscriptions/${old.id}`, {
    token: subscriber.token,
  });
  t.match(ended.body.data, { status: 'cancelled', endReason: 'resubscribed' });
  const events = await api.sql<{ subscriptionId: string; type: string; body: string }[]>`
    select subscription_id, type, body from events order by created_at, id`;
  t.match(
    events.map(({ subscriptionId, type }) => [subscriptionId, type]),
    [
      [old.id, 'subscription_created'],
      [old.id, 'cancel_finalized'],
      [data.id, 'subscription_created'],
    ],
  );
  t.match(JSON.parse(events[1]!.body), {
    data: { endReason: 'resubscribed', accountClosed: true, status: 'cancelled' },
  });
});

void t.test(
  'a force-cancelled subscription is registered again only after the wallet opened it again',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const old = await registered(api, subscriber, merchant.appId, plan.id);
    const { subscriptionPda } = old;
    const body = { appId: merchant.appId, planId: plan.id, subscriptionPda };
    const register = () =>
      api.call('POST', '/subscriber/subscriptions', { token: subscriber.token, body });
    await api.call('POST', `/merchant/apps/${merchant.appId}/subscriptions/${old.id}/cancel`, {
      token: merchant.key,
      body: { mode: 'force' },
    });
    t.match(await register(), {
      status: 409,
      body: { error: { message: /merchant has cancelled/ } },
    });
    await resubscribe(api, subscriber, { id: old.id, planId: plan.id });
    t.equal((await register()).status, 201);
  },
);

void t.test('a merchant cannot subscribe to its own plan', async (t) => {
  const api = await chainApi(t);
  const keypair = api.funded();
  const merchant = { ...(await api.merchant()), ...(await api.signIn('merchant', keypair)) };
  const app = await api.call<{ id: string }>('POST', '/merchant/apps', {
    token: merchant.token,
    body: { name: 'App' },
  });
  const plan = await api.publishedPlan({ ...merchant, appId: app.body.data.id });
  const { token } = await api.signIn('subscriber', keypair);
  const refused = { status: 400, body: { error: { details: [{ path: 'planId' }] } } };
  t.match(await api.call('POST', `/subscriber/plans/${plan.id}/subscribe`, { token }), refused);
});

void t.test(
  'POST repair returns a transaction that approves the token account again',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token, keypair, wallet } = subscriber;
    const { id } = await registered(api, subscriber, merchant.appId, plan.id);
    const { mint, programId } = api.deps.network;
    const repair = () =>
      api.call<{ transaction: string }>('POST', `/subscriber/subscriptions/${id}/repair`, {
        token,
      });
    t.match(await repair(), { status: 409, body: { error: { message: /nothing to repair/ } } });
    const account = tokenAccountAddress(wallet, mint).address;
    const { blockhash } = await api.deps.chain.getLatestBlockhash();
    const revoke = revokeApproval({ owner: wallet, mint });
    await api.submit(keypair, unsignedTransaction(wallet, [revoke], blockhash));
    const repaired = await repair();
    t.equal(repaired.status, 200);
    await api.submit(keypair, repaired.body.data.transaction);
    const { accounts } = await api.deps.chain.getMultipleAccounts([account]);
    t.equal(
      tokenAccountIn(accounts[0] ?? null)?.delegate,
      authorityAddress(programId, wallet, mint).address,
    );
    t.equal((await repair()).status, 409);
    const cancel = await api.call<{ transaction: string }>(
      'POST',
      `/subscriber/subscriptions/${id}/cancel`,
      { token },
    );
    await api.submit(keypair, cancel.body.data.transaction);
    t.match(await repair(), { status: 409, body: { error: { message: /subscribe again/ } } });
  },
);

void t.test(
  'a resume also renews a revoked approval; after the authority was closed it gets CONFLICT',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const plan = await api.publishedPlan(merchant);
    const subscriber = await api.signIn('subscriber', api.funded());
    const { token, keypair, wallet } = subscriber;
    const { id } = await registered(api, subscriber, merchant.appId, plan.id);
    const { mint, programId } = api.deps.network;
    const ask = (verb: string) =>
      api.call<{ transaction: string }>('POST', `/subscriber/subscriptions/${id}/${verb}`, {
        token,
      });
    const withdraw = async (instruction: Instruction) => {
      const { blockhash } = await api.deps.chain.getLatestBlockhash();
      await api.submit(keypair, unsignedTransaction(wallet, [instruction], blockhash));
    };
    await api.submit(keypair, (await ask('cancel')).body.data.transaction);
    await withdraw(revokeApproval({ owner: wallet, mint }));
    await api.submit(keypair, (await ask('resume')).body.data.transaction);
    t.match(
      await ask('repair'),
      { status: 409, body: { error: { message: /nothing to repair/ } } },
      'one signature was enough',
    );
    await api.submit(keypair, (await ask('cancel')).body.data.transaction);
    await withdraw(revokeAuthority(programId, { user: wallet, mint }));
    t.match(
      await ask('resume'),
      { status: 409, body: { error: { message: /closed the authority/ } } },
      'nothing could be collected afterwards',
    );
  },
);
