// Attacks on the sponsor. The sponsor's loss is bounded, and a test shows each bound.
import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { generateKeypair, type Keypair } from '../../src/chain/keypair.ts';
import type { Instruction } from '../../src/chain/program/instructions.ts';
import { addSignature, compileMessage } from '../../src/chain/transactions/message.ts';
import {
  ASSERTION_BYTES,
  readWalletSigned,
  unsignedSponsored,
} from '../../src/chain/transactions/sponsored.ts';
import { transferLamports } from '../../src/chain/transactions/system-instructions.ts';
import type { Config } from '../../src/config/config.ts';
import {
  findSponsoredOffer,
  insertOffer,
  type NewSponsoredOffer,
  storeSigned,
} from '../../src/db/offers/offers.ts';
import { connect } from '../../src/db/postgres/connect.ts';
import { newId } from '../../src/db/postgres/ids.ts';
import type { LocalnetOptions } from '../../src/local/chain/start.ts';
import { publicUrl } from '../fixtures/http.ts';
import { isLong } from '../fixtures/long.ts';
import { asRole } from '../fixtures/postgres.ts';
import { type OfferMade, type SponsorStage, startSponsorStage } from '../fixtures/sponsor-stage.ts';

const ENDED = ['final', 'failed', 'refused', 'unsponsored', 'lapsed'];

async function scene(t: Test, config: Partial<Config> = {}, options: LocalnetOptions = {}) {
  const stage = await startSponsorStage(t, options, config);
  stage.net.mineBlocks(2);
  const plan = await stage.plan();
  stage.net.fund(plan.merchant.address, { usdc: 1n });
  const lamports = () => stage.rpc.getBalance(stage.keeper.address);
  return { stage, plan, lamports, before: await lamports() };
}

/** Forges an offer in the database as serve could, and hands its transaction over. */
async function forge(
  stage: SponsorStage,
  like: OfferMade,
  wallet: Keypair,
  change: Partial<NewSponsoredOffer>,
): Promise<string> {
  const serve = connect(asRole(stage.databaseUrl, 'serve'), { max: 1, name: 'billing test' });
  try {
    const real = (await findSponsoredOffer(serve, like.offerId))!;
    const id = await newId(serve);
    const forged = { ...real, id, ...change };
    await insertOffer(serve, forged);
    const unsigned = unsignedSponsored(forged.message);
    await storeSigned(serve, id, Buffer.from(addSignature(wallet, unsigned), 'base64'));
    return id;
  } finally {
    await serve.end();
  }
}

const decisions = ({ sql }: SponsorStage) =>
  sql<{ offerId: string; state: string; reason: string | null }[]>`
    select offer_id, state, reason from sponsorships`;

void t.test(
  'a keeper signs nothing for a compromised serve that it would not build itself',
  async (t) => {
    const { stage, plan, lamports, before } = await scene(t);
    const wallet = stage.poor(50_000_000n);
    const offer = await stage.offer(plan, wallet);
    const { blockhash } = readWalletSigned(
      Buffer.from(addSignature(wallet, offer.transaction), 'base64'),
    )!;
    const compiled = (instructions: Instruction[]) =>
      Buffer.from(compileMessage(stage.keeper.address, instructions, blockhash).serialize());
    const stealing = compiled([
      transferLamports(stage.keeper.address, wallet.address, 1_000_000_000n),
      transferLamports(wallet.address, stage.keeper.address, 1n),
    ]);
    const ids = [
      await forge(stage, offer, wallet, { message: stealing }),
      // The right message under another purpose, plan, budget or sponsor.
      await forge(stage, offer, wallet, { purpose: 'cancel' }),
      await forge(stage, offer, wallet, { unitPrice: 1_000_000_000n }),
      await forge(stage, offer, wallet, { computeUnits: 1_400_000 }),
      await forge(stage, offer, wallet, { withdraws: true, purpose: 'close' }),
      await forge(stage, offer, wallet, {}),
    ];
    const { sponsor } = stage.sponsor();
    await sponsor.turn(true);
    const found = await decisions(stage);
    t.same(new Set(found.map(({ offerId }) => offerId)), new Set(ids), 'each was decided');
    t.ok(
      found.every(({ state }) => state === 'refused'),
      JSON.stringify(found),
    );
    t.equal(await lamports(), before, 'nothing was spent');
    t.same(await stage.sql`select 1 from transactions`, [], 'nothing was signed');
    const serve = connect(asRole(stage.databaseUrl, 'serve'), { max: 1, name: 'billing test' });
    t.teardown(() => serve.end());
    const forbidden = { code: '42501' };
    await t.rejects(serve`update sponsorships set state = 'refused'`, forbidden);
    await t.rejects(serve`delete from sponsorships`, forbidden);
    await t.rejects(serve`update offers set wallet = 'other'`, forbidden);
    await t.rejects(serve`insert into transactions default values`, forbidden);
  },
);

void t.test(
  'a keeper refuses an offer of a compromised serve if any column contradicts its message',
  async (t) => {
    const { stage, plan, lamports, before } = await scene(t);
    const other = await stage.plan();
    const stranger = generateKeypair().address;
    const forged: Record<string, string | number | boolean>[] = [
      { subscription_pda: stranger },
      { plan_id: other.id },
      { wallet: stranger },
      { sponsor: stranger },
      { purpose: 'resume' },
      { purpose: 'repair' },
      { purpose: 'cancel' },
      { purpose: 'close' },
      { compute_units: 200_000 },
      { unit_price: 1 },
      { loaded_data_bytes: 1_000_000 },
    ];
    const offers = await Promise.all(
      forged.map(async (columns) => {
        const wallet = stage.poor();
        const { offerId, transaction } = await stage.offer(plan, wallet);
        // Writes the columns as an insert of serve would. serve may not update these columns.
        await stage.sql`update offers set ${stage.sql(columns)} where id = ${offerId}`;
        const signed = Buffer.from(addSignature(wallet, transaction), 'base64');
        t.ok(await storeSigned(stage.sql, offerId, signed));
        return offerId;
      }),
    );
    const { sponsor } = stage.sponsor();
    await sponsor.turn(true);
    const found = await decisions(stage);
    for (const [index, columns] of forged.entries()) {
      const decided = found.find(({ offerId }) => offerId === offers[index]);
      // Another sponsor's offers are left to it.
      if ('sponsor' in columns) t.equal(decided, undefined);
      else t.equal(decided?.state, 'refused', JSON.stringify(columns));
    }
    t.equal(await lamports(), before, 'nothing was spent');
    t.same(await stage.sql`select 1 from transactions`, [], 'nothing was signed');
  },
);

void t.test(
  'an offer’s secret works only for its own page, and its token is given once',
  async (t) => {
    const { stage, plan } = await scene(t);
    const wallet = stage.poor();
    const offer = await stage.offer(plan, wallet);
    const signed = addSignature(wallet, offer.transaction);
    const path = `/checkout/offers/${offer.offerId}/transaction`;
    const post = (
      token: string | undefined,
      headers: Record<string, string>,
      transaction = signed,
    ) =>
      stage.api.call<{ token: string | null }>('POST', path, {
        token,
        headers,
        body: { transaction },
      });
    t.match(await post(randomBytes(32).toString('base64url'), {}), { status: 404 });
    t.match(await post(undefined, {}), { status: 401 });
    t.match(await post(offer.secret, { origin: 'https://evil.example' }), { status: 404 });
    const wrong = Buffer.from(offer.transaction, 'base64');
    t.match(await post(offer.secret, {}, wrong.toString('base64')), { status: 400 }, 'not signed');
    const other = await stage.offer(plan, wallet);
    t.match(
      await stage.hand(other, signed),
      { status: 400, body: { error: { details: [{ path: 'transaction' }] } } },
      'the signature of one offer fits no other',
    );
    const paged = await stage.api.call<{ offer: OfferMade }>(
      'POST',
      `/checkout/plans/${plan.id}/offers`,
      { headers: { origin: publicUrl }, body: { wallet: wallet.address } },
    );
    const { offerId, secret } = paged.body.data.offer;
    const read = (headers: Record<string, string>) =>
      stage.api.call('GET', `/checkout/offers/${offerId}`, { token: secret, headers });
    // A browser sends no Origin with a GET of its own origin.
    t.match(await read({}), { status: 200 });
    t.match(await read({ origin: 'https://evil.example' }), { status: 404 });
    t.match(
      await stage.api.call('POST', `/checkout/offers/${offerId}/transaction`, {
        token: secret,
        body: { transaction: signed },
      }),
      { status: 404 },
      'a page’s offer takes no transaction without its Origin',
    );
    // A page of another site sends its Origin with every request.
    const shop = 'https://shop.test';
    await stage.sql`update offers set origin = ${shop} where id = ${offerId}`;
    t.match(await read({ origin: shop }), { status: 200 });
    t.match(await read({}), { status: 404 });
    t.match(await read({ origin: publicUrl }), { status: 404 });
    t.type((await post(offer.secret, {})).body.data.token, 'string');
    const { sponsor } = stage.sponsor();
    t.match(await stage.work(sponsor, offer, ...ENDED), { state: 'final' });
    t.equal((await post(offer.secret, {})).body.data.token, null, 'public by now: no token');
    t.match(await stage.hand(other, signed), { status: 400 });
  },
);

void t.test(
  'a token from a shop’s page reaches only the apps that list the shop’s origin',
  async (t) => {
    const { stage, plan } = await scene(t);
    const wallet = stage.poor();
    const offer = await stage.offer(plan, wallet);
    const shop = 'https://shop.test';
    await stage.sql`update offers set origin = ${shop} where id = ${offer.offerId}`;
    const path = `/checkout/offers/${offer.offerId}/transaction`;
    const { body } = await stage.api.call<{ token: string }>('POST', path, {
      token: offer.secret,
      headers: { origin: shop },
      body: { transaction: addSignature(wallet, offer.transaction) },
    });
    const read = () =>
      stage.api.call('GET', `/subscriber/plans/${plan.id}`, { token: body.data.token });
    t.match(await read(), { status: 403, body: { error: { message: /returnOrigins/ } } });
    await stage.sql`update apps set return_origins = ${[shop]}`;
    t.equal((await read()).status, 200);
  },
);

void t.test(
  'a wallet that is emptied before its sponsored sign-up lands costs the sponsor one fee an hour',
  async (t) => {
    const { stage, plan, lamports, before } = await scene(t);
    const wallet = stage.poor();
    const offer = await stage.offer(plan, wallet);
    await stage.sign(offer, wallet);
    const drain = () =>
      stage.net.rpc('surfnet_setTokenAccount', wallet.address, stage.net.mint, { amount: 0 });
    const { sponsor } = stage.sponsor({
      async sendTransaction(bytes, options) {
        await drain();
        return stage.rpc.sendTransaction(bytes, options);
      },
    });
    t.match(await stage.work(sponsor, offer, ...ENDED), { state: 'failed' });
    const lost = before - (await lamports());
    t.ok(lost > 0n && lost <= 15_000n, `${lost} lamports: a network fee, no rent`);
    stage.net.fund(wallet.address, { usdc: 5_000_000n });
    stage.net.mineBlocks(2);
    const again = await stage.ask(plan, wallet.address);
    t.match(again.body.data, { offer: null, notSponsored: { code: 'failed_lately' } });
    const neighbour = await stage.ask(plan, stage.poor().address);
    t.match(neighbour.body.data.notSponsored, { code: 'failed_lately' }, 'its address waits too');
    t.same(await stage.sql`select 1 from subscriptions`, []);
    // A transaction whose simulation fails costs nothing at all.
    await stage.sql`update sponsorships set ended_at = now() - interval '2 hours'`;
    const rich = await stage.offer(plan, wallet);
    await drain();
    await stage.sign(rich, wallet);
    const spent = await lamports();
    t.match(await stage.work(stage.sponsor().sponsor, rich, ...ENDED), { state: 'refused' });
    t.equal(await lamports(), spent);
  },
);

void t.test(
  'many new wallets at one address spend no more than the budget of the address',
  async (t) => {
    const rent = 1_188_720n + 1_437_640n;
    const cost = Number(rent) + 15_000;
    const { stage, plan, lamports, before } = await scene(t, {
      sponsorPerAddress: 3 * cost + 5000,
    });
    const wallets = Array.from({ length: 8 }, () => stage.poor());
    const made = await Promise.all(
      wallets.map(async (wallet) => ({ wallet, offer: await stage.offer(plan, wallet) })),
    );
    for (const { wallet, offer } of made) await stage.sign(offer, wallet);
    const two = [stage.sponsor().sponsor, stage.sponsor().sponsor];
    await stage.until('all are decided', async () => {
      await Promise.all(two.map((sponsor) => sponsor.turn(true)));
      const states = await Promise.all(made.map(({ offer }) => stage.progress(offer)));
      return states.every(({ state }) => ENDED.includes(state));
    });
    const found = await decisions(stage);
    t.equal(found.filter(({ state }) => state === 'landed').length, 3);
    t.same(
      new Set(found.flatMap(({ reason }) => reason ?? [])),
      new Set(['address_budget']),
      'the others are told',
    );
    const spent = before - (await lamports());
    t.ok(spent <= BigInt(3 * cost + 5000), `${spent} lamports`);
    const late = await stage.ask(plan, stage.poor().address);
    t.match(late.body.data, { offer: null, notSponsored: { code: 'address_budget' } });
  },
);

void t.test(
  'many new wallets at many addresses spend no more than the budget of the day',
  async (t) => {
    const count = isLong ? 1000 : 12;
    const cost = 1_188_720n + 1_437_640n + 15_000n;
    const bound = 5n * cost;
    const config = { sponsorPerDay: Number(bound), sponsorPerAddress: 1e12 };
    // Blocks are made on request, and few of them, so that no offer lapses.
    const { stage, plan, lamports, before } = await scene(t, config, { blockMs: 0 });
    // A new merchant has a fifth of it (sponsored-merchants.test.ts).
    await stage.sql`update merchants set approved_at = now()`;
    const gifts = { lamports: 0n, usdc: 5_000_000n };
    const wallets = Array.from({ length: count }, () => stage.wallet(gifts));
    stage.net.mineBlocks(2);
    const made: { wallet: Keypair; offer: OfferMade }[] = [];
    for (const wallet of wallets) made.push({ wallet, offer: await stage.offer(plan, wallet) });
    await stage.sql`update offers set address = id::text`;
    for (const { wallet, offer } of made) await stage.sign(offer, wallet);
    const two = [stage.sponsor().sponsor, stage.sponsor().sponsor];
    await stage.until('all are decided', async () => {
      await Promise.all(two.map((sponsor) => sponsor.turn(true)));
      const states = (await decisions(stage)).map(({ state }) => state);
      if (states.includes('open')) stage.net.mineBlocks(10);
      return states.length === count && !states.includes('open');
    });
    const found = await decisions(stage);
    t.equal(found.filter(({ state }) => state === 'landed').length, 5);
    t.same(new Set(found.flatMap(({ reason }) => reason ?? [])), new Set(['budget']));
    const spent = before - (await lamports());
    t.ok(spent <= bound, `${spent} of ${bound} lamports`);
    t.match((await stage.ask(plan, stage.poor().address)).body.data.notSponsored, {
      code: 'budget',
    });
  },
);

void t.test('a merchant that subscribes to itself reaches its limit of open rent', async (t) => {
  const { stage, plan } = await scene(t, { sponsorMerchantOut: 3_000_000 });
  const first = stage.poor();
  const offer = await stage.offer(plan, first);
  await stage.sign(offer, first);
  t.match(await stage.work(stage.sponsor().sponsor, offer, ...ENDED), { state: 'final' });
  const second = await stage.ask(plan, stage.poor().address);
  t.match(second.body.data.notSponsored, { code: 'merchant_budget' });
  const other = await stage.plan();
  stage.net.fund(other.merchant.address, { usdc: 1n });
  t.match((await stage.ask(other, stage.poor().address)).body.data.notSponsored, null);
});

void t.test(
  'of two sessions of one customer, the session that is signed first reserves the customer',
  async (t) => {
    const { stage, plan } = await scene(t);
    const sessions = await stage.sql<{ id: string }[]>`
      insert into checkout_sessions (app_id, plan_id, metadata, external_id)
      select app_id, id, '{}', 'customer-1' from plans, generate_series(1, 2)
      where id = ${plan.id} returning id`;
    const buyers = [stage.poor(), stage.poor()] as const;
    const ask = (place: 0 | 1) => ({ checkoutSessionId: sessions[place]!.id });
    const changed = await stage.offer(plan, stage.poor(), ask(0));
    const first = await stage.offer(plan, buyers[0], ask(0));
    const second = await stage.offer(plan, buyers[1], ask(1));
    t.ok(changed, 'an offer that was only asked for keeps nobody out');
    const [one, two] = await Promise.all([
      stage.sign(first, buyers[0]),
      stage.sign(second, buyers[1]),
    ]);
    t.same([one.status, two.status].sort(), [200, 409], 'signed at once: one is taken');
    const [taken, other, place] =
      one.status === 200 ? ([first, buyers[1], 1] as const) : ([second, buyers[0], 0] as const);
    t.equal((await stage.ask(plan, other.address, ask(place))).status, 409);
    t.match(await stage.work(stage.sponsor().sponsor, taken, ...ENDED), { state: 'final' });
    t.equal((await stage.ask(plan, other.address, ask(place))).status, 409, 'subscribed by now');
  },
);

void t.test('nothing is sponsored without a payment or while sponsoring is off', async (t) => {
  const { stage, plan } = await scene(t);
  const { sql } = stage;
  const refusal = async (wallet: Keypair) =>
    (await stage.ask(plan, wallet.address)).body.data.notSponsored?.code;
  t.equal(await refusal(stage.poor(4_999_999n)), 'insufficient_usdc');
  t.equal(await refusal(generateKeypair()), 'no_token_account');
  await sql`update plans set trial_hours = 24`;
  t.equal(await refusal(stage.poor()), 'trial');
  await sql`update plans set trial_hours = null`;
  // A checkout session's own trial counts too, for the API and for the keeper.
  const [session] = await sql<{ id: string }[]>`
    insert into checkout_sessions (app_id, plan_id, metadata, trial_hours)
    select app_id, id, '{}', 24 from plans where id = ${plan.id} returning id`;
  const inSession = { checkoutSessionId: session!.id };
  const free = await stage.ask(plan, stage.poor().address, inSession);
  t.match(free.body.data.notSponsored, { code: 'trial' });
  await sql`update checkout_sessions set trial_hours = null`;
  const buyer = stage.poor();
  const paying = await stage.offer(plan, buyer, inSession);
  await stage.sign(paying, buyer);
  await sql`update checkout_sessions set trial_hours = 24`;
  const keeper = stage.sponsor();
  t.match(await stage.work(keeper.sponsor, paying, ...ENDED), { state: 'refused' });
  await sql`update apps set sponsorship = 'off'`;
  t.equal(await refusal(stage.poor()), 'app_off');
  await sql`update apps set sponsorship = 'on'`;
  const cheap = await stage.plan({ amount: 999_999n });
  stage.net.fund(cheap.merchant.address, { usdc: 1n });
  const small = await stage.ask(cheap, stage.poor().address);
  t.match(small.body.data.notSponsored, { code: 'below_minimum' });
  const wallet = stage.poor();
  const offer = await stage.offer(plan, wallet);
  await stage.sign(offer, wallet);
  await sql`update apps set sponsorship = 'off'`;
  const { sponsor } = stage.sponsor();
  t.match(
    await stage.work(sponsor, offer, ...ENDED),
    { state: 'unsponsored', refusal: 'app_off' },
    'switched off since: the wallet may pay by itself',
  );
});

void t.test(
  'after a sponsored account is closed and opened again, the rent of only one account is open',
  async (t) => {
    const { stage, plan, lamports, before } = await scene(t);
    const wallet = stage.poor(20_000_000n);
    const { sponsor } = stage.sponsor();
    const buy = async () => {
      const offer = await stage.offer(plan, wallet);
      const length = Buffer.from(offer.transaction, 'base64').length;
      t.ok(length + ASSERTION_BYTES <= 1232, `${length} bytes, which leave room for assertions`);
      const { token } = (await stage.sign(offer, wallet)).body.data;
      t.match(await stage.work(sponsor, offer, ...ENDED), { state: 'final' });
      return token!;
    };
    const token = await buy();
    const [{ id }] = await stage.sql<[{ id: string }]>`select id from subscriptions`;
    const { body } = await stage.api.call<OfferMade>(
      'POST',
      `/subscriber/subscriptions/${id}/cancel`,
      {
        token,
        body: { sponsored: true },
      },
    );
    const { offerId, transaction } = body.data;
    await stage.api.call('POST', `/subscriber/offers/${offerId}/transaction`, {
      token,
      body: { transaction: addSignature(wallet, transaction) },
    });
    await stage.until('the cancellation is final', async () => {
      await sponsor.turn(true);
      return (await decisions(stage)).every(({ state }) => state === 'landed');
    });
    stage.passHours(721);
    await buy();
    const [out] = await stage.sql<[{ open: number; back: number }]>`
    select count(*) filter (where subscription_returned_at is null)::int as open,
      count(*) filter (where subscription_returned_at is not null)::int as back
    from sponsorships where purpose = 'subscribe'`;
    t.same(out, { open: 1, back: 1 });
    const spent = before - (await lamports());
    t.ok(spent < 1_188_720n + 1_437_640n + 60_000n, `one account's rent is out: ${spent}`);
    t.match(
      (await stage.ask(plan, wallet.address)).body.data.notSponsored,
      { code: 'running' },
      'one open account per wallet and plan',
    );
  },
);
