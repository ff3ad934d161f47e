// Plans: published, adopted, changed and ended.
import { Transaction } from '@solana/web3.js';
import t from 'tap';
import { planIn } from '../../../src/chain/program/accounts.ts';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  planAddress,
} from '../../../src/chain/program/addresses.ts';
import { decodePlan } from '../../../src/chain/program/layouts.ts';
import { createPlan } from '../../../src/chain/program/plan-instructions.ts';
import { unsignedTransaction } from '../../../src/chain/transactions/message.ts';
import { chainApi, randomAddress, testApi, type ChainApi } from '../../fixtures/http.ts';
import { insertPlan } from '../../fixtures/rows.ts';

interface Plan {
  id: string;
  status: string;
  planPda: string;
  transaction: string;
  [field: string]: unknown;
}

const terms = { name: 'Monthly', amount: '10000000', periodHours: 730 };

async function create(
  api: ChainApi,
  { token, appId }: { token: string; appId: string },
  body: Record<string, unknown> = {},
) {
  return api.call<Plan>('POST', `/merchant/apps/${appId}/plans`, {
    token,
    body: { ...terms, ...body },
  });
}

void t.test(
  'a plan is pending until its account is on chain, and the transaction names keeper and destinations',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    api.localnet.fund(merchant.wallet, { lamports: 1_000_000_000n });
    const endsAt = new Date(Number(await api.chainNow()) * 1000 + 731 * 3600_000).toISOString();
    const created = await create(api, merchant, { endsAt, metadataUri: 'https://a.test/p.json' });
    t.match(created, {
      status: 201,
      body: {
        data: {
          ...terms,
          status: 'pending',
          metadataUri: 'https://a.test/p.json',
          appId: merchant.appId,
        },
      },
    });
    t.equal(
      Date.parse(String(created.body.data.endsAt)),
      Math.floor(Date.parse(endsAt) / 1000) * 1000,
      'to the second',
    );
    const path = `/merchant/apps/${merchant.appId}/plans/${created.body.data.id}`;
    t.equal((await api.call('GET', path, { token: merchant.key })).body.data.status, 'pending');

    const unsigned = Transaction.from(Buffer.from(created.body.data.transaction, 'base64'));
    t.equal(unsigned.feePayer?.toBase58(), merchant.wallet);
    t.same(
      unsigned.instructions.map(({ programId }) => programId.toBase58()),
      [
        COMPUTE_BUDGET_PROGRAM,
        COMPUTE_BUDGET_PROGRAM,
        ASSOCIATED_TOKEN_PROGRAM,
        api.deps.network.programId,
      ],
      'it creates the token account of the merchant, too',
    );
    await api.submit(merchant.keypair, created.body.data.transaction);
    const { accounts } = await api.deps.chain.getMultipleAccounts([created.body.data.planPda]);
    const { puller, treasury, mint } = api.deps.network;
    t.match(decodePlan(accounts[0]!.data), {
      owner: merchant.wallet,
      mint,
      amount: 10_000_000n,
      periodHours: 730n,
      pullers: [puller],
      destinations: [merchant.wallet, treasury],
    });

    const seen = await api.call<Plan>('GET', path, { token: merchant.key });
    t.equal(seen.body.data.status, 'active', 'the merchant who just published it sees so');
    t.notOk('transaction' in seen.body.data);
    t.match(
      await api.call('POST', `${path}/transaction`, { token: merchant.key }),
      { status: 409 },
      'there is nothing left to publish',
    );
    t.same(
      (await api.call('GET', `/merchant/apps/${merchant.appId}/plans`, { token: merchant.key }))
        .body.data,
      [seen.body.data],
    );
  },
);

void t.test('the quoted publishing cost equals the lamports paid', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  api.localnet.fund(merchant.wallet, { lamports: 1_000_000_000n });
  api.localnet.mineBlocks(2);
  const read = async () =>
    (
      await api.call<Record<'total' | 'tokenAccountRent' | 'balance', string>>(
        'GET',
        '/merchant/publishing-cost',
        { token: merchant.token },
      )
    ).body.data;
  const before = await read();
  t.equal(before.balance, '1000000000');
  const { body } = await create(api, merchant);
  await api.submit(merchant.keypair, body.data.transaction);
  const after = await read();
  t.equal(BigInt(before.balance) - BigInt(after.balance), BigInt(before.total));
  t.equal(after.tokenAccountRent, '0', 'the wallet has a USDC account now');
});

void t.test(
  'a second request for the transaction of a pending plan returns a new one that publishes it',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    api.localnet.fund(merchant.wallet, { lamports: 1_000_000_000n });
    const { id } = (await create(api, merchant)).body.data;
    api.localnet.mineBlocks(200);
    const path = `/merchant/apps/${merchant.appId}/plans/${id}`;
    const fresh = await api.call<Plan>('POST', `${path}/transaction`, { token: merchant.key });
    await api.submit(merchant.keypair, fresh.body.data.transaction);
    t.equal((await api.call('GET', path, { token: merchant.key })).body.data.status, 'active');
  },
);

void t.test(
  'an existing on-chain plan with the keeper and both destinations can be adopted once',
  async (t) => {
    const api = await chainApi(t);
    const [merchant, other] = [await api.merchant(), await api.merchant()];
    const published = await api.publishedPlan(merchant, { amount: '7', periodHours: 24 });
    const adopt = (who: typeof merchant, body: Record<string, unknown>) =>
      api.call<Plan>('POST', `/merchant/apps/${who.appId}/plans`, {
        token: who.key,
        body: { name: 'Adopted', planPda: published.planPda, ...body },
      });
    t.match(
      await adopt(merchant, {}),
      { status: 409, body: { error: { code: 'CONFLICT' } } },
      'it is registered',
    );
    await api.sql`delete from plans`;
    t.match(await adopt(other, {}), { status: 403 }, 'another wallet’s plan');
    t.match(await adopt(merchant, { planPda: randomAddress() }), { status: 404 }, 'nothing there');
    t.match(
      await adopt(merchant, { planPda: api.deps.network.mint }),
      { status: 400, body: { error: { details: [{ path: 'planPda' }] } } },
      'no plan at all',
    );
    t.match(await adopt(merchant, { amount: '7', periodHours: 24 }), {
      status: 400,
      body: { error: { details: [{ path: 'amount' }, { path: 'periodHours' }] } },
    });
    const adopted = await adopt(merchant, {});
    t.match(adopted, {
      status: 201,
      body: {
        data: {
          name: 'Adopted',
          status: 'active',
          amount: '7',
          periodHours: 24,
          planPda: published.planPda,
        },
      },
    });
    t.notOk('transaction' in adopted.body.data);
  },
);

void t.test(
  'a plan that names another keeper cannot be adopted and does not turn active',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const { id, planPda } = await api.publishedPlan(merchant);
    const rotated = await testApi(t, {
      rpcUrl: api.localnet.rpcUrl,
      database: { sql: api.sql, url: api.databaseUrl },
      network: { ...api.deps.network, puller: randomAddress() },
    });
    const path = `/merchant/apps/${merchant.appId}/plans`;
    const statusBy = async (one: typeof rotated) =>
      (await one.call('GET', `${path}/${id}`, { token: merchant.key })).body.data.status;
    await api.sql`update plans set puller = ${randomAddress()}`;
    t.equal(await statusBy(rotated), 'pending');
    t.equal(await statusBy(api), 'active', 'one of our keepers is enough');
    await api.sql`delete from plans`;
    const elsewhere = await chainApi(t);
    const foreign = await elsewhere.signIn('merchant', merchant.keypair);
    const app = await elsewhere.call<{ id: string }>('POST', '/merchant/apps', {
      token: foreign.token,
      body: { name: 'App' },
    });
    await elsewhere.publishedPlan({ ...foreign, appId: app.body.data.id });
    const [plan] = await elsewhere.sql<{ planPda: string }[]>`select plan_pda from plans`;
    await elsewhere.sql`delete from plans`;
    const third = await testApi(t, {
      rpcUrl: elsewhere.localnet.rpcUrl,
      network: { ...elsewhere.deps.network, puller: randomAddress() },
    });
    const owner = await third.signIn('merchant', merchant.keypair);
    const thirdApp = await third.call<{ id: string }>('POST', '/merchant/apps', {
      token: owner.token,
      body: { name: 'App' },
    });
    const refused = await third.call('POST', `/merchant/apps/${thirdApp.body.data.id}/plans`, {
      token: owner.token,
      body: { name: 'X', planPda: plan!.planPda },
    });
    t.match(refused, {
      status: 400,
      body: { error: { details: [{ path: 'planPda', message: /puller/ }] } },
    });
    t.ok(planPda);
  },
);

void t.test('PATCH renames a plan, or sunsets a plan permanently', async (t) => {
  const api = await testApi(t);
  const merchant = await api.merchant();
  const id = await insertPlan(api.sql, merchant);
  const pending = await insertPlan(api.sql, merchant, { status: 'pending', chainCreatedAt: null });
  const patch = (plan: string, body: unknown) =>
    api.call<Plan>('PATCH', `/merchant/apps/${merchant.appId}/plans/${plan}`, {
      token: merchant.key,
      body,
    });
  t.match(await patch(id, { name: 'Renamed' }), {
    status: 200,
    body: { data: { name: 'Renamed', status: 'active' } },
  });
  t.match(await patch(id, {}), { status: 200, body: { data: { name: 'Renamed' } } });
  t.match(await patch(id, { description: 'Beans' }), { body: { data: { description: 'Beans' } } });
  const shown = async () =>
    (await api.call<{ description: string | null }>('GET', `/plans/${id}`)).body.data.description;
  t.equal(await shown(), 'Beans', 'subscribers see it');
  t.match(await patch(id, { description: '' }), { status: 400 });
  await patch(id, { description: null });
  t.equal(await shown(), null);
  t.match(await patch(pending, { status: 'sunset' }), { status: 409 });
  t.match(await patch(id, { status: 'sunset' }), {
    status: 200,
    body: { data: { status: 'sunset' } },
  });
  t.match(await patch(id, { status: 'sunset', name: 'Again' }), {
    status: 200,
    body: { data: { status: 'sunset', name: 'Again' } },
  });
  t.match(await patch(id, { status: 'active' }), { status: 400 }, 'there is no way back');
  t.match(await patch(id, { amount: '1' }), {
    status: 400,
    body: { error: { details: [{ path: 'amount' }] } },
  });
});

void t.test('invalid plan terms get VALIDATION_ERROR with the field’s name', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const soon = new Date(Date.now() + 3600_000).toISOString();
  const cases: [string, unknown][] = [
    ['name', ''],
    ['name', ' '],
    ['name', 'x'.repeat(121)],
    ['name', 'a\nb'],
    ['name', 'a\0b'],
    ['name', '\ud800'],
    ['name', 5],
    ['name', undefined],
    ['amount', 10],
    ['amount', '0'],
    ['amount', '-1'],
    ['amount', '1.5'],
    ['amount', '1e3'],
    ['amount', '01'],
    ['amount', ''],
    ['amount', '9223372036854775808'],
    ['amount', undefined],
    ['periodHours', 0],
    ['periodHours', 8761],
    ['periodHours', 1.5],
    ['periodHours', '24'],
    ['periodHours', undefined],
    ['endsAt', soon],
    ['endsAt', 'tomorrow'],
    ['endsAt', '1970-01-01'],
    ['endsAt', 5],
    ['metadataUri', 'x'.repeat(129)],
    ['metadataUri', 'é'.repeat(65)],
    ['planPda', 'x'],
    ['other', 1],
  ];
  for (const [path, value] of cases) {
    const answer = await create(api, merchant, { [path]: value });
    t.match(
      answer,
      { status: 400, body: { error: { code: 'VALIDATION_ERROR', details: [{ path }] } } },
      `${path}: ${JSON.stringify(value ?? null).slice(0, 40)}`,
    );
  }
  for (const good of [
    { name: '💶'.repeat(120) },
    { amount: '9223372036854775807' },
    { periodHours: 8760 },
    { periodHours: 1 },
    { endsAt: null },
    { metadataUri: 'é'.repeat(64) },
  ]) {
    t.equal((await create(api, merchant, good)).status, 201, JSON.stringify(good).slice(0, 40));
  }
});

void t.test('a plan of another app gets 404, a plan of another merchant 403', async (t) => {
  const api = await testApi(t);
  const [mine, other] = [await api.merchant(), await api.merchant()];
  const second = await api.call<{ id: string }>('POST', '/merchant/apps', {
    token: mine.token,
    body: { name: 'Second' },
  });
  const id = await insertPlan(api.sql, mine);
  for (const [method, suffix, body] of [
    ['GET', ''],
    ['PATCH', '', { name: 'x' }],
    ['POST', '/transaction'],
  ] as const) {
    t.equal(
      (
        await api.call(method, `/merchant/apps/${second.body.data.id}/plans/${id}${suffix}`, {
          token: mine.key,
          body,
        })
      ).status,
      404,
      method,
    );
    t.equal(
      (
        await api.call(method, `/merchant/apps/${mine.appId}/plans/${id}${suffix}`, {
          token: other.key,
          body,
        })
      ).status,
      403,
      method,
    );
  }
});

void t.test('a plan of less than PLAN_MINIMUM_AMOUNT is refused', async (t) => {
  const api = await chainApi(t, { planMinimumAmount: 100_000n });
  const merchant = await api.merchant();
  for (const amount of ['1', '99999'])
    t.match(await create(api, merchant, { amount }), {
      status: 400,
      body: { error: { details: [{ path: 'amount', message: /100000 base units/ }] } },
    });
  t.equal((await create(api, merchant, { amount: '100000' })).status, 201);
  const lax = await testApi(t, { rpcUrl: api.localnet.rpcUrl, network: api.deps.network });
  const owner = await lax.merchant();
  api.localnet.fund(owner.wallet, { lamports: 1_000_000_000n });
  const dust = await lax.call<Plan>('POST', `/merchant/apps/${owner.appId}/plans`, {
    token: owner.token,
    body: { ...terms, amount: '7' },
  });
  await api.submit(owner.keypair, dust.body.data.transaction);
  const { token } = await api.signIn('merchant', owner.keypair);
  const app = await api.call<{ id: string }>('POST', '/merchant/apps', {
    token,
    body: { name: 'App' },
  });
  const adopted = await api.call('POST', `/merchant/apps/${app.body.data.id}/plans`, {
    token,
    body: { name: 'Dust', planPda: dust.body.data.planPda },
  });
  t.match(adopted, { status: 400, body: { error: { details: [{ path: 'planPda' }] } } });
});

void t.test('a plan of a wallet without a token account cannot be adopted', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  api.localnet.fund(merchant.wallet, { lamports: 1_000_000_000n });
  const { programId, mint, puller, treasury } = api.deps.network;
  const planTerms = {
    planId: 7n,
    mint,
    amount: 10_000_000n,
    periodHours: 24n,
    endTs: 0n,
    destinations: [merchant.wallet, treasury],
    pullers: [puller],
    metadataUri: '',
  };
  const plan = planAddress(programId, merchant.wallet, planTerms.planId).address;
  const { blockhash } = await api.deps.chain.getLatestBlockhash();
  await api.submit(
    merchant.keypair,
    unsignedTransaction(
      merchant.wallet,
      [createPlan(programId, { merchant: merchant.wallet, plan, terms: planTerms })],
      blockhash,
    ),
  );
  const adopt = () =>
    api.call('POST', `/merchant/apps/${merchant.appId}/plans`, {
      token: merchant.key,
      body: { name: 'Adopted', planPda: plan },
    });
  t.match(await adopt(), {
    status: 400,
    body: { error: { details: [{ path: 'planPda', message: /token account.*adopt/ }] } },
  });
  api.localnet.fund(merchant.wallet, { usdc: 1n });
  api.localnet.mineBlocks(3);
  t.equal((await adopt()).status, 201);
});

void t.test('a merchant has at most 20 pending plans over all its apps', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const second = await api.call<{ id: string }>('POST', '/merchant/apps', {
    token: merchant.token,
    body: { name: 'Tea' },
  });
  const apps = [merchant.appId, second.body.data.id];
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, n) =>
      create(api, { token: merchant.token, appId: apps[n % 2]! }),
    ),
  );
  const statuses = answers.map(({ status }) => status).sort();
  t.same(statuses, [...Array<number>(20).fill(201), ...Array<number>(4).fill(409)]);
  const other = await api.merchant();
  t.equal((await create(api, other)).status, 201);
  await api.sql`update plans set status = 'ended' where id = (select id from plans where app_id = ${merchant.appId} limit 1)`;
  t.equal((await create(api, merchant)).status, 201);
});

void t.test(
  'after a key rotation the merchant signs an update of the pullers; an update without a change gets CONFLICT',
  async (t) => {
    const api = await chainApi(t);
    const merchant = await api.merchant();
    const { id, planPda } = await api.publishedPlan(merchant);
    const { puller: old } = api.deps.network;
    const next = randomAddress();
    const withKeepers = (puller: string, standbyPullers: string[]) =>
      testApi(t, {
        rpcUrl: api.localnet.rpcUrl,
        database: { sql: api.sql, url: api.databaseUrl },
        network: { ...api.deps.network, puller, standbyPullers },
      });
    const ask = (one: { call: typeof api.call }) =>
      one.call<{ transaction: string }>(
        'POST',
        `/merchant/apps/${merchant.appId}/plans/${id}/pullers-transaction`,
        { token: merchant.key },
      );
    const pullers = async () => {
      const { accounts } = await api.deps.chain.getMultipleAccounts([planPda]);
      return planIn(accounts[0] ?? null, api.deps.network.programId)?.pullers;
    };
    t.match(await ask(api), { status: 409, body: { error: { code: 'CONFLICT' } } });
    for (const [keepers, expected] of [
      [
        [next, [old]],
        [next, old],
      ],
      [[next, []], [next]],
    ] as const) {
      const { status, body } = await ask(await withKeepers(keepers[0], [...keepers[1]]));
      t.equal(status, 200);
      await api.submit(merchant.keypair, body.data.transaction);
      t.same(await pullers(), expected);
    }
  },
);

void t.test('plans show a readable amount and a warning for a likely decimal error', async (t) => {
  const api = await chainApi(t);
  const merchant = await api.merchant();
  const codes = ({ warnings }: Plan) => (warnings as { code: string }[]).map(({ code }) => code);
  const first = (await create(api, merchant)).body.data;
  t.match(first, { amount: '10000000', amountDisplay: '10.00 USDC', warnings: [] });
  const slip = (await create(api, merchant, { name: 'Yearly', amount: '100000' })).body.data;
  t.equal(slip.amountDisplay, '0.10 USDC');
  t.match(slip.warnings, [
    { code: 'amount_far_below', message: /^0\.10 USDC every 730 hours is far below "Monthly"/ },
  ]);
  const path = `/merchant/apps/${merchant.appId}/plans`;
  const get = async <T>(at: string) =>
    (await api.call<T>('GET', at, { token: merchant.key })).body.data;
  t.same((await get<Plan[]>(path)).map(codes), [['amount_far_below'], ['amount_far_above']]);
  t.same(codes(await get<Plan>(`${path}/${slip.id}`)), ['amount_far_below']);
  await api.sql`update plans set status = 'ended' where id = ${slip.id}`;
  t.same(
    (await get<Plan[]>(path)).map(codes),
    [['amount_far_below'], []],
    'ended plans do not count',
  );
});

void t.test(
  'noticeHours accepts up to three descending hours, at most 2160, or null for the default',
  async (t) => {
    const api = await testApi(t);
    const merchant = await api.merchant();
    const { insertPlan } = await import('../../fixtures/rows.ts');
    const planId = await insertPlan(api.sql, merchant);
    const patch = (noticeHours: unknown) =>
      api.call('PATCH', `/merchant/apps/${merchant.appId}/plans/${planId}`, {
        token: merchant.key,
        body: { noticeHours },
      });
    for (const noticeHours of [[], [72, 720], [72, 72], [2161], [0], [4, 3, 2, 1], 72])
      t.match(await patch(noticeHours), {
        status: 400,
        body: { error: { code: 'VALIDATION_ERROR' } },
      });
    t.match(await patch([2160, 720, 72]), {
      status: 200,
      body: { data: { noticeHours: [2160, 720, 72] } },
    });
    t.match(await patch(null), { status: 200, body: { data: { noticeHours: null } } });
  },
);
