// A customer has one live subscription per app, and everyone sees who set the customer's id.
import t from 'tap';
import { chainApi, type ChainApi, type Signed } from '../../fixtures/http.ts';
import { withTwoEndpoints } from '../../fixtures/two-endpoints.ts';

type Merchant = Awaited<ReturnType<ChainApi['merchant']>>;

interface Session {
  id: string;
}

async function scene(t: Parameters<typeof chainApi>[0]) {
  const api = await chainApi(t);
  const merchant: Merchant = await api.merchant();
  const plan = await api.publishedPlan(merchant);
  const path = `/merchant/apps/${merchant.appId}`;
  const { key: token } = merchant;
  const session = (given: object = {}, planId = plan.id) =>
    api.call<Session>('POST', `${path}/checkout-sessions`, {
      token,
      body: { planId, externalId: 'customer-1', ...given },
    });
  const patch = (body: object) => api.call('PATCH', path, { token, body });
  const offer = (
    buyer: Signed,
    checkoutSessionId: string,
    { planId = plan.id, more = {} }: { planId?: string; more?: object } = {},
  ) =>
    api.call<{ transaction: string; subscriptionPda: string; offerId: string }>(
      'POST',
      `/subscriber/plans/${planId}/subscribe`,
      { token: buyer.token, body: { checkoutSessionId, ...more } },
    );
  const register = (buyer: Signed, subscriptionPda: string, ids: object = {}, planId = plan.id) =>
    api.call<{ id: string }>('POST', '/subscriber/subscriptions', {
      token: buyer.token,
      body: { appId: merchant.appId, planId, subscriptionPda, ...ids },
    });
  /** Subscribes and registers in this session. */
  const buy = async (buyer: Signed, checkoutSessionId: string, planId = plan.id) => {
    const { body } = await offer(buyer, checkoutSessionId, { planId });
    await api.submit(buyer.keypair, body.data.transaction);
    return register(buyer, body.data.subscriptionPda, { checkoutSessionId }, planId);
  };
  const read = async (id: string) =>
    (
      await api.call('GET', `${path}/subscriptions/${id}`, {
        token,
      })
    ).body.data;
  const buyer = () => api.signIn('subscriber', api.funded());
  return { api, merchant, plan, path, token, session, patch, offer, register, buy, read, buyer };
}

void t.test(
  'the second session of an externalId gets CONFLICT with the id of the existing subscription',
  async (t) => {
    const { session, buyer, buy, offer, api, path, token } = await scene(t);
    const [first, second] = [(await session()).body.data, (await session()).body.data];
    const [one, two] = [await buyer(), await buyer()];
    const bought = await buy(one, first.id);
    t.equal(bought.status, 201);
    const { id } = bought.body.data;
    const refused = {
      status: 409,
      body: {
        error: { code: 'CONFLICT', message: new RegExp(id), details: [{ path: 'externalId' }] },
      },
    };
    t.match(await offer(two, second.id), refused);
    t.match(await session(), refused);
    t.equal((await session({ externalId: 'customer-2' })).status, 201);
    t.equal((await session({ externalId: undefined })).status, 201);

    const exempt = await session({ allowSecond: true });
    t.match(exempt, { status: 201, body: { data: { allowSecond: true } } });
    const again = await buy(two, exempt.body.data.id);
    t.equal(again.status, 201);
    const access = await api.call('GET', `${path}/access?externalId=customer-1`, { token });
    t.match(access.body.data, { subscriptions: 2 });
    await api.call('POST', `${path}/subscriptions/${id}/cancel`, {
      token,
      body: { mode: 'force' },
    });
    await api.call('POST', `${path}/subscriptions/${again.body.data.id}/cancel`, {
      token,
      body: { mode: 'force' },
    });
    t.equal((await session()).status, 201, 'none is live any more');
    const none = await api.call('GET', `${path}/access?externalId=customer-1`, { token });
    t.match(none.body.data, { subscriptions: 0 });
  },
);

const elsewhere = { status: 409, body: { error: { message: /Try again in about a minute/ } } };

void t.test('an unsigned offer does not block another sign-up of the same customer', async (t) => {
  const { session, buyer, offer, buy } = await scene(t);
  const [one, two] = [await buyer(), await buyer()];
  const [own, other] = [(await session()).body.data, (await session()).body.data];
  t.equal((await offer(one, own.id)).status, 200);
  t.equal((await offer(two, own.id)).status, 200, 'another wallet in the same session');
  t.equal((await offer(two, other.id)).status, 200, 'another session');
  t.equal((await buy(two, other.id)).status, 201);
});

void t.test(
  'a transaction that the wallet sends itself reserves the customer until it expires or is offered again',
  async (t) => {
    const { session, buyer, offer, api } = await scene(t);
    const [one, two] = [await buyer(), await buyer()];
    const [own, other] = [(await session()).body.data, (await session()).body.data];
    const itself = { walletSends: true };
    const both = await Promise.all([
      offer(one, own.id, { more: itself }),
      offer(two, other.id, { more: itself }),
    ]);
    t.same(both.map(({ status }) => status).sort(), [200, 409], 'two at once: one gets it');
    const [winner, loser] = both[0].status === 200 ? [one, two] : [two, one];
    const [mine, others] = winner === one ? [own, other] : [other, own];
    t.equal((await offer(winner, mine.id)).status, 200, 'the same wallet may ask again');
    t.equal((await offer(loser, mine.id)).status, 200, 'another account, the same session');
    t.match(await offer(loser, others.id), elsewhere);
    api.localnet.mineBlocks(200);
    t.equal((await offer(loser, others.id)).status, 200, 'the first offer is dead');
  },
);

void t.test(
  'a customer stays reserved until two endpoints show that the transaction is dead',
  async (t) => {
    for (const [what, atOffer, later] of [
      ['the first endpoint is ahead', 0, 1000],
      ['the first endpoint was behind', -1000, 0],
    ] as const)
      await t.test(what, async (t) => {
        const { session, buyer, offer, api } = await scene(t);
        const { off, limitSecond } = await withTwoEndpoints(t, api.deps.chain, api.localnet.rpcUrl);
        const [one, two] = [await buyer(), await buyer()];
        const [own, other] = [(await session()).body.data, (await session()).body.data];
        off.blocks = atOffer;
        t.equal((await offer(one, own.id, { more: { walletSends: true } })).status, 200);
        off.blocks = later;
        t.match(await offer(two, other.id), elsewhere);
        api.localnet.mineBlocks(40);
        t.match(await offer(two, other.id), elsewhere, 'the blockhash is final');
        api.localnet.mineBlocks(200);
        limitSecond(true);
        t.match(await offer(two, other.id), elsewhere, 'one endpoint answers');
        limitSecond(false);
        // The second endpoint is asked again after its pause.
        while ((await offer(two, other.id)).status !== 200) api.localnet.mineBlocks();
      });
  },
);

void t.test(
  'the relay reserves the customer for a transaction, so of two concurrent ones only one is sent',
  async (t) => {
    const { session, buyer, offer, api } = await scene(t);
    const [one, two, three] = [await buyer(), await buyer(), await buyer()];
    const sessions = [(await session()).body.data, (await session()).body.data] as const;
    const last = (await session()).body.data;
    const relay = async ({ token, keypair }: Signed, checkoutSessionId: string) => {
      const { data } = (await offer({ token, keypair } as Signed, checkoutSessionId)).body;
      const bytes = Buffer.from(data.transaction, 'base64');
      keypair.sign(bytes.subarray(65)).copy(bytes, 1);
      const body = { transaction: bytes.toString('base64'), offerId: data.offerId };
      return () =>
        api.call<{ status: string }>('POST', '/subscriber/transactions', { token, body });
    };
    const sends = [await relay(one, sessions[0].id), await relay(two, sessions[1].id)];
    // No block is mined until one of them is refused: the other cannot have landed.
    const [refused] = await Promise.race(
      sends.map(async (send) => {
        const answer = await send();
        if (answer.status === 200) await new Promise<never>(() => undefined);
        return [answer];
      }),
    );
    t.match(refused, elsewhere);
    t.match(await offer(three, last.id), elsewhere, 'nor is another transaction offered');
    const timer = setInterval(() => api.localnet.mineBlocks(), 50);
    t.teardown(() => clearInterval(timer));
    const answers = await Promise.all(sends.map((send) => send()));
    t.same(answers.map(({ status }) => status).sort(), [200, 409]);
    t.match(answers.find(({ status }) => status === 200)?.body.data, { status: 'confirmed' });
  },
);

void t.test('a landed second subscription is registered and marked as a duplicate', async (t) => {
  const { session, buyer, offer, register, api, read, patch, merchant } = await scene(t);
  const other = await api.publishedPlan(merchant, { name: 'Other' });
  const [one, two] = [await buyer(), await buyer()];
  const first = (await session()).body.data;
  const late = (await session({}, other.id)).body.data;
  const { subscriptionPda, transaction } = (await offer(one, first.id)).body.data;
  const itself = { planId: other.id, more: { walletSends: true } };
  const second = (await offer(two, late.id, itself)).body.data;
  await api.submit(two.keypair, second.transaction);
  t.equal((await offer(one, first.id)).status, 409, 'reserved by the other');
  await api.submit(one.keypair, transaction);
  const kept = await register(
    two,
    second.subscriptionPda,
    { checkoutSessionId: late.id },
    other.id,
  );
  const doubled = await register(one, subscriptionPda, { checkoutSessionId: first.id });
  t.same([kept.status, doubled.status], [201, 201]);
  t.match(await read(kept.body.data.id), { duplicateOf: null, ownIdsFrom: 'checkout' });
  t.match(await read(doubled.body.data.id), { duplicateOf: kept.body.data.id });
  const [event] = await api.sql<{ body: string }[]>`
      select body from events where subscription_id = ${doubled.body.data.id}`;
  t.match(JSON.parse(event!.body), {
    data: { duplicateOf: kept.body.data.id, ownIdsFrom: 'checkout' },
  });

  t.match(await patch({ onePerCustomer: false }), { body: { data: { onePerCustomer: false } } });
  t.equal((await session()).status, 201);
});

void t.test(
  "ids in a subscriber's registration are refused unless the app allows them, then marked unverified",
  async (t) => {
    const { buyer, api, plan, register, patch, read, path, token } = await scene(t);
    const one = await buyer();
    const pda = await api.subscribed(one, plan.id);
    for (const [field, ids] of [
      ['externalId', { externalId: 'customer-1' }],
      ['metadata', { metadata: { a: 'b' } }],
    ] as const)
      t.match(await register(one, pda, ids), {
        status: 400,
        body: { error: { details: [{ path: field }] } },
      });
    t.match(await patch({ ownIdsBySubscriber: true }), {
      body: { data: { ownIdsBySubscriber: true } },
    });
    const { id } = (await register(one, pda, { externalId: 'customer-1' })).body.data;
    t.match(await read(id), { externalId: 'customer-1', ownIdsFrom: 'subscriber' });
    const body = { externalId: 'customer-2' };
    await api.call('PATCH', `${path}/subscriptions/${id}`, { token, body });
    t.match(await read(id), { externalId: 'customer-2', ownIdsFrom: 'merchant' });
    const two = await buyer();
    const plain = await register(two, await api.subscribed(two, plan.id));
    t.match(await read(plain.body.data.id), { externalId: null, ownIdsFrom: null });
  },
);
