// What follows a sponsored sign-up: cancelling where the budget for leaving is used up, resuming,
// repairing, the terms of a checkout session, accounts that their wallet abandons, and what metrics
// and `billing status` tell of all this.
import { Registry } from 'prom-client';
import t, { type Test } from 'tap';
import type { Keypair } from '../../src/chain/keypair.ts';
import { AUTHORITY_LENGTH, SUBSCRIPTION_LENGTH } from '../../src/chain/program/layouts.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { cancelInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { periodsLeft } from '../../src/db/invoices/standing.ts';
import { readRentByAge } from '../../src/db/offers/rent-ages.ts';
import {
  readSponsoringByMerchant,
  readSponsoringFacts,
} from '../../src/db/offers/sponsor-budgets.ts';
import { measureSponsoring, sponsorMetrics } from '../../src/keeper/base/sponsor-metrics.ts';
import { takeRentBack } from '../../src/keeper/sponsor/rent.ts';
import { startApiStage } from '../fixtures/api-stage.ts';
import type { Plan, Subscription } from '../fixtures/billing.ts';
import { runShared } from '../fixtures/command.ts';
import { readSamples } from '../fixtures/samples.ts';
import {
  type OfferMade,
  type SponsorStage,
  type SponsorSteps,
  startSponsorStage,
} from '../fixtures/sponsor-stage.ts';

/** More blocks than a transaction needs to be final. */
const FINAL_BLOCKS = 40;

interface Party {
  stage: SponsorStage;
  sponsor: SponsorSteps;
  plan: Plan;
  wallet: Keypair;
}

async function scene(
  t: Test,
  config: Parameters<typeof startSponsorStage>[2] = {},
): Promise<Party> {
  // Blocks are made on request: each transaction is final at the next turn.
  const stage = await startSponsorStage(t, { blockMs: 0 }, config);
  stage.net.mineBlocks(2);
  const plan = await stage.plan();
  stage.net.fund(plan.merchant.address, { usdc: 1n });
  return { stage, sponsor: stage.sponsor().sponsor, plan, wallet: stage.poor(20_000_000n) };
}

/** Decides and sends, then lets the transaction become final and settles it. */
async function settles({ stage, sponsor }: Party): Promise<void> {
  await sponsor.turn(true);
  stage.net.mineBlocks(FINAL_BLOCKS);
  await sponsor.turn(true);
}

async function subscribes(party: Party, more: Record<string, unknown> = {}) {
  const { stage, plan, wallet } = party;
  const offer = await stage.offer(plan, wallet, more);
  const { token } = (await stage.sign(offer, wallet)).body.data;
  await settles(party);
  const { state, subscriptionId } = await stage.progress(offer);
  if (state !== 'final' || subscriptionId === null) throw new Error(`it is ${state}`);
  const subscription: Subscription = {
    id: subscriptionId,
    pda: offer.subscriptionPda,
    wallet,
    plan,
  };
  const post = <T = Record<string, unknown>>(path: string, body: Record<string, unknown> = {}) =>
    stage.api.call<T>('POST', `/subscriber/${path}`, { token: token!, body });
  /** Has a transaction sponsored, and waits until it is final. */
  const sponsored = async (path: string, body: Record<string, unknown> = {}) => {
    const answer = await post<OfferMade & { sponsored: boolean }>(path, {
      sponsored: true,
      ...body,
    });
    const { offerId, transaction } = answer.body.data;
    if (!answer.body.data.sponsored) throw new Error(JSON.stringify(answer.body));
    await post(`offers/${offerId}/transaction`, { transaction: addSignature(wallet, transaction) });
    await settles(party);
    const [{ state: end }] = await stage.sql<[{ state: string }]>`
      select state from sponsorships where offer_id = ${offerId}`;
    return end;
  };
  return { subscription, post, sponsored };
}

void t.test(
  'without a budget for sponsored cancellations, a cancellation takes effect in the service at once',
  async (t) => {
    const party = await scene(t, { sponsorLeaving: 1 });
    const { stage, wallet } = party;
    const { subscription, post, sponsored } = await subscribes(party);
    const cancel = `subscriptions/${subscription.id}/cancel`;
    const answer = await post<{ transaction: string; cancelled: boolean }>(cancel, {
      sponsored: true,
    });
    t.match(answer.body.data, {
      sponsored: false,
      cancelled: true,
      notSponsored: { code: 'budget' },
    });
    t.match(await stage.row(subscription), { status: 'active', nextPaymentDue: null });
    const own = await stage.api.call('GET', `/subscriber/subscriptions/${subscription.id}`, {
      token: (await stage.api.signIn('subscriber', wallet)).token,
    });
    t.match(own.body.data, { cancelRequestedBy: 'subscriber' });
    await post(cancel, { sponsored: true });
    const types = async () => (await stage.events(subscription)).map(({ type }) => type);
    t.same(await types(), ['subscription_created', 'payment_success', 'cancel_requested'], 'once');

    // The account still runs. A keeper that reads it must not undo the cancellation. The due time
    // is also past for the keeper's clock, which may be a second behind the chain's clock.
    const due = () =>
      stage.sql`update subscription_work set due_at = to_timestamp(${stage.now() - 60})`;
    const { collect } = stage.parts();
    await due();
    await collect();
    t.ok((await stage.row(subscription)).cancelRequestedAt, 'it still holds');

    // Once it is on chain too, a resume on chain undoes it.
    stage.net.fund(wallet.address, { lamports: 1_000_000_000n });
    await stage.land(wallet, answer.body.data.transaction);
    await due();
    await collect();
    t.match(await stage.row(subscription), { cancelRequestedBy: 'subscriber' });
    t.equal(await sponsored(`subscriptions/${subscription.id}/resume`), 'landed');
    await due();
    await collect();
    t.match(await stage.row(subscription), { cancelRequestedAt: null, status: 'active' });
    t.equal((await types()).at(-1), 'subscription_resumed');
  },
);

void t.test(
  'a cancellation that only the service records ends the subscription without a payment',
  async (t) => {
    const party = await scene(t, { sponsorLeaving: 1 });
    const { stage } = party;
    const { subscription, post } = await subscribes(party);
    await post(`subscriptions/${subscription.id}/cancel`, { sponsored: true });
    await stage.startKeeper();
    stage.mine();
    stage.passHours(721);
    await stage.until(
      'it has ended',
      async () => (await stage.row(subscription)).status === 'cancelled',
    );
    stage.passHours(721);
    await stage.quiet();
    t.equal((await stage.payments(subscription)).length, 1);
  },
);

void t.test(
  'without sponsoring, the service records the cancellation of a wallet without SOL',
  async (t) => {
    const stage = await startApiStage(t, { blockMs: 60 });
    const plan = await stage.plan();
    for (const [isPoor, body] of [
      [true, {}],
      [true, { sponsored: true }],
      [false, { sponsored: true }],
    ] as const) {
      const { id, wallet } = await stage.subscriber(plan);
      if (isPoor) await stage.net.rpc('surfnet_setAccount', wallet.address, { lamports: 0 });
      stage.net.mineBlocks(2);
      const { token } = await stage.api.signIn('subscriber', wallet);
      const path = `/subscriber/subscriptions/${id}/cancel`;
      const answer = await stage.api.call<{ cancelled?: boolean }>('POST', path, { token, body });
      const { data } = answer.body;
      const code = 'sponsored' in body ? { code: 'off' } : null;
      t.match(data, { sponsored: false, notSponsored: code });
      t.equal(data.cancelled, isPoor || undefined, 'a wallet with SOL signs it');
      const [row] = await stage.sql`
      select cancel_requested_at is not null as cancelled from subscriptions where id = ${id}`;
      t.equal(row?.cancelled, isPoor);
    }
  },
);

void t.test(
  'the service records a signed cancellation that the keeper refuses for any reason',
  async (t) => {
    const party = await scene(t);
    const { stage, wallet } = party;
    const { subscription, post } = await subscribes(party);
    const { body } = await post<OfferMade>(`subscriptions/${subscription.id}/cancel`, {
      sponsored: true,
    });
    const { offerId, transaction } = body.data;
    const { sponsor } = stage.sponsor({
      simulateTransaction: async (bytes, options) => ({
        ...(await stage.rpc.simulateTransaction(bytes, options)),
        err: 'ProgramFailedToComplete',
      }),
    });
    await post(`offers/${offerId}/transaction`, { transaction: addSignature(wallet, transaction) });
    await settles({ ...party, sponsor });
    const { token } = await stage.api.signIn('subscriber', wallet);
    const told = await stage.api.call('GET', `/subscriber/offers/${offerId}`, { token });
    t.match(told.body.data, { state: 'refused', refusal: 'would_fail', cancelled: true });
    t.match(await stage.row(subscription), { status: 'active', nextPaymentDue: null });
    t.ok((await stage.row(subscription)).cancelRequestedAt);
  },
);

void t.test('resume and repair are sponsored and cost only network fees', async (t) => {
  const party = await scene(t);
  const { stage, wallet } = party;
  const { subscription, sponsored } = await subscribes(party);
  const path = `subscriptions/${subscription.id}`;
  t.equal(await sponsored(`${path}/cancel`), 'landed');
  t.not((await stage.onChain(subscription))?.expiresAt, 0n);
  t.equal(await sponsored(`${path}/resume`), 'landed');
  t.equal((await stage.onChain(subscription))?.expiresAt, 0n);
  t.equal(await sponsored('approval/revoke'), 'landed');
  t.equal(await sponsored(`${path}/repair`), 'landed');
  t.equal(await stage.rpc.getBalance(wallet.address), 0n, 'the wallet has no SOL');
  const [{ rent, fee }] = await stage.sql<[{ rent: bigint; fee: bigint }]>`
    select sum(authority_rent + subscription_rent)::int8 as rent, max(fee) as fee
    from sponsorships where purpose <> 'subscribe'`;
  t.match({ rent, fee: fee < 16_000n }, { rent: 0n, fee: true }, 'network fees only');
});

void t.test('a sponsored resume is refused after the subscription has ended', async (t) => {
  const party = await scene(t);
  const { stage, sponsor, plan, wallet } = party;
  const { subscription, post, sponsored } = await subscribes(party);
  const path = `subscriptions/${subscription.id}`;
  t.equal(await sponsored(`${path}/cancel`), 'landed');
  const asks = async () => (await post<OfferMade>(`${path}/resume`, { sponsored: true })).body.data;
  const hands = ({ offerId, transaction }: OfferMade) =>
    post(`offers/${offerId}/transaction`, { transaction: addSignature(wallet, transaction) });
  const [late, handed] = [await asks(), await asks()];
  t.equal((await hands(handed)).status, 200);
  const { token } = await stage.seller(plan);
  const app = `/merchant/apps/${plan.appId}`;
  await stage.api.call('POST', `${app}/${path}/cancel`, { token, body: { mode: 'force' } });
  await sponsor.turn(true);
  t.match(
    await stage.sql`select state, reason from sponsorships where offer_id = ${handed.offerId}`,
    [{ state: 'refused', reason: 'nothing_to_do' }],
  );
  const refused = { status: 409, body: { error: { code: 'CONFLICT', message: /has ended/ } } };
  t.match(await hands(late), refused);
  const { offerId } = late;
  t.same(await stage.sql`select 1 from offers where id = ${offerId} and signed is not null`, []);
});

void t.test(
  'a sponsored sign-up gets the discount and the ids of its checkout session',
  async (t) => {
    const party = await scene(t);
    const { stage, plan } = party;
    const { token } = await stage.seller(plan);
    const { body } = await stage.api.call<{ id: string }>(
      'POST',
      `/merchant/apps/${plan.appId}/checkout-sessions`,
      {
        token,
        body: {
          planId: plan.id,
          externalId: 'customer-1',
          discount: { percentOff: 50, periods: 2 },
        },
      },
    );
    const checkoutSessionId = body.data.id;
    const { subscription } = await subscribes(party, { checkoutSessionId });
    t.match(await stage.payments(subscription), [
      { amountGross: 2_500_000n, platformFee: 25_000n },
    ]);
    const [row] = await stage.sql`
    select s.external_id, ${periodsLeft(stage.sql)} as discount_periods, s.own_ids_from, c.subscription_id = s.id as completes
    from subscriptions s join checkout_sessions c on c.id = ${checkoutSessionId}`;
    t.match(row, {
      externalId: 'customer-1',
      discountPeriods: 1,
      ownIdsFrom: 'checkout',
      completes: true,
    });
    const other = await stage.ask(plan, stage.poor().address, { checkoutSessionId });
    t.equal(other.status, 403, 'it is another wallet’s');
  },
);

void t.test(
  'after a wallet closes its authority, the keeper closes its abandoned account',
  async (t) => {
    const party = await scene(t);
    const { stage } = party;
    const before = await stage.rpc.getBalance(stage.keeper.address);
    const { subscription, sponsored } = await subscribes(party);
    t.equal(await sponsored('approval/revoke', { closeAuthority: true }), 'landed');
    t.not(await stage.onChain(subscription), null, 'its account is still there');
    const { context } = stage.sponsor();
    const check = async () => {
      await stage.sql`update sponsorships set checked_at = now() - interval '2 days'`;
      await takeRentBack(context);
      stage.net.mineBlocks(FINAL_BLOCKS);
    };
    await check();
    t.equal(await stage.onChain(subscription), null);
    await check();
    const [row] = await stage.sql`
    select authority_returned_at is not null as authority,
      subscription_returned_at is not null as subscription
    from sponsorships where purpose = 'subscribe'`;
    t.match(row, { authority: true, subscription: true });
    const spent = before - (await stage.rpc.getBalance(stage.keeper.address));
    t.ok(spent > 0n && spent < 60_000n, `network fees only: ${spent}`);
  },
);

void t.test('metrics and `billing status` equal the sponsoring costs on chain', async (t) => {
  const party = await scene(t, { sponsorLeaving: 10_000_000 });
  const { stage, plan, sponsor } = party;
  const { sql, limits } = stage;
  const merchant = plan.merchant.address;
  const before = await stage.rpc.getBalance(stage.keeper.address);
  const paid = async () => before - (await stage.rpc.getBalance(stage.keeper.address));
  /** The cost of a purpose's sponsorships on chain, from their fees and accounts. */
  const feesOf = async (...purposes: string[]) => {
    const [row] = await sql<[{ fees: bigint }]>`select coalesce(sum(fee), 0)::int8 as fees
      from sponsorships where purpose = any(${purposes}) and state in ('landed', 'failed')`;
    return row.fees;
  };
  const metrics = async () => {
    const registry = new Registry();
    await measureSponsoring(sql, sponsorMetrics(registry), limits);
    const samples = readSamples(await registry.metrics());
    return Object.fromEntries(
      samples.map(({ metric, labels, value }) => [
        `${metric.replace('billing_sponsor_', '')}${labels.merchant === merchant ? ' of it' : ''}`,
        value,
      ]),
    );
  };
  const env = { DATABASE_URL: stage.databaseUrl };
  const budgets = {
    SPONSOR_LAMPORTS_PER_DAY: '1000000000',
    SPONSOR_LEAVING_LAMPORTS_PER_DAY: '10000000',
  };
  const status = async () =>
    JSON.parse((await runShared(['status', '--json'], { ...env, ...budgets })).stdout) as {
      sponsoring: Record<string, unknown>;
    };

  t.match(await status(), {
    sponsoring: {
      ...{ spent: '0', reserved: '0', out: '0', returned: '0', lost: '0' },
      budgets: { perDay: '1000000000', leaving: '10000000' },
      merchants: [],
    },
  });
  const { subscription, sponsored } = await subscribes(party);
  const rent = 1_188_720n + 1_437_640n;
  const fee = (await paid()) - rent;
  t.ok(fee > 10_000n && fee < 16_000n, `a network fee: ${fee}`);
  t.match(await metrics(), {
    ...{ 'lamports_spent of it': Number(fee), 'lamports_reserved of it': 0 },
    ...{ 'lamports_out of it': Number(rent), 'lamports_returned of it': 0 },
    ...{ 'lamports_lost of it': 0, 'merchant_day_lamports of it': Number(fee + rent) },
    ...{ day_lamports: Number(fee + rent), budget_lamports: 1_000_000_000 },
    ...{ leaving_day_lamports: 0, leaving_budget_lamports: 10_000_000 },
    merchant_budget_lamports: Number(limits.perMerchant),
    'merchant_out_budget_lamports of it': 50_250_000,
  });

  t.equal(await sponsored(`subscriptions/${subscription.id}/cancel`), 'landed');
  const cancelled = (await paid()) - rent - fee;
  t.equal(cancelled, await feesOf('cancel'));
  t.match(await metrics(), {
    ...{ 'lamports_spent of it': Number(fee + cancelled), leaving_day_lamports: Number(cancelled) },
    ...{ day_lamports: Number(fee + rent), 'merchant_day_lamports of it': Number(fee + rent) },
  });

  stage.passHours(721);
  t.equal(await sponsored(`subscriptions/${subscription.id}/close`), 'landed');
  t.equal(await stage.onChain(subscription), null);
  await sql`update sponsorships set checked_at = now() - interval '2 days'`;
  await takeRentBack(stage.sponsor().context);
  const spent = fee + cancelled + (await feesOf('close'));
  t.equal(await paid(), spent + 1_188_720n, 'the rent of the approval and fees');

  // A transaction that fails on chain, and one that has not ended.
  const drained = stage.poor();
  const failing = await stage.offer(plan, drained);
  await stage.sign(failing, drained);
  const { sponsor: unlucky } = stage.sponsor({
    async sendTransaction(bytes, options) {
      await stage.net.rpc('surfnet_setTokenAccount', drained.address, stage.net.mint, {
        amount: 0,
      });
      return stage.rpc.sendTransaction(bytes, options);
    },
  });
  await settles({ ...party, sponsor: unlucky });
  t.match(await stage.progress(failing), { state: 'failed' });
  const lost = (await paid()) - spent - 1_188_720n;
  await sql`update sponsorships set ended_at = now() - interval '2 hours' where state = 'failed'`;
  const buyer = stage.poor();
  const open = await stage.offer(plan, buyer);
  await stage.sign(open, buyer);
  await sponsor.turn(true);
  const [{ reserved }] = await sql<[{ reserved: bigint }]>`
    select reserved from sponsorships where state = 'open'`;
  t.ok(reserved > rent + 10_000n && reserved < rent + 16_000n, 'rent and a fee at most');

  const booked = { spent, reserved, out: 1_188_720n, returned: 1_437_640n, lost };
  const day = rent + fee + lost + reserved;
  // One percent of 5 USDC.
  const standing = { vouched: null, isApproved: false, fees: 50_000n };
  t.same(await readSponsoringByMerchant(sql), [{ merchant, ...booked, day, ...standing }]);
  t.match(await readSponsoringFacts(sql), {
    ...{ day, leaving: spent - fee, out: 1_188_720n, overdue: 0n, refused: 0, failed: 1 },
  });
  const measured = await metrics();
  for (const [kind, lamports] of Object.entries(booked))
    t.equal(measured[`lamports_${kind} of it`], Number(lamports), kind);
  t.match(measured, { 'merchant_day_lamports of it': Number(day), refused: 0 });

  // A month later the approval is still out.
  await sql`update sponsorships set ended_at = ended_at - interval '40 days'
    where purpose = 'subscribe' and state = 'landed'`;
  t.match(await readRentByAge(sql), [
    { days: 0, signUps: 0, authorities: 0n, subscriptions: 0n },
    { days: 30, signUps: 1, authorities: 1_188_720n, subscriptions: 0n },
    { days: 90, signUps: 0 },
    { days: 365, signUps: 0 },
  ]);
  const text = (of: object) =>
    JSON.parse(
      JSON.stringify(of, (_, one: unknown) => (typeof one === 'bigint' ? String(one) : one)),
    ) as object;
  t.match((await status()).sponsoring, {
    ...text({ ...booked, day, leaving: spent - fee }),
    outByAge: [{ days: 0 }, { days: 30, authorities: '1188720' }, { days: 90 }, { days: 365 }],
    merchants: [text({ merchant, ...booked, day, ...standing, mayBeOut: 50_250_000n })],
    nearLimit: [],
  });
  const screen = await runShared(['status', '--by', 'merchant'], { ...env, ...budgets });
  const sol = (lamports: bigint) => `0\\.0*${String(lamports).replace(/0+$/, '')}`;
  for (const line of [
    `Sponsored today +${sol(day)} of 1\\.00 SOL, leaving ${sol(spent - fee)} of 0\\.01 SOL; 0 refused, 1 failed$`,
    `of all time +${sol(spent)} SOL of fees, ${sol(lost)} lost; rent 0\\.00118872 out, 0\\.00143764 returned`,
    `rent out +0\\.00118872 SOL for 30 to 90 days$`,
    `most by merchant +${merchant}: ${sol(day)} of 1\\.00 SOL today, `,
    `^${merchant} +${sol(day)} +1\\.00 +${sol(spent)} +${sol(reserved)} +0\\.00118872 +0\\.05025 +0\\.00143764 +${sol(lost)}$`,
  ])
    t.match(screen.stdout, new RegExp(line, 'm'));
  const unset = await runShared(['status'], env);
  t.match(unset.stdout, /no budgets here: SPONSOR_LAMPORTS_PER_DAY/);
});

void t.test('a sponsored close returns the rent to the sponsor', async (t) => {
  const party = await scene(t);
  const { stage } = party;
  const { subscription, sponsored } = await subscribes(party);
  t.equal(await sponsored(`subscriptions/${subscription.id}/cancel`), 'landed');
  stage.passHours(721);
  const before = await stage.rpc.getBalance(stage.keeper.address);
  t.equal(await sponsored(`subscriptions/${subscription.id}/close`), 'landed');
  t.equal(await stage.onChain(subscription), null);
  const gained = (await stage.rpc.getBalance(stage.keeper.address)) - before;
  const rent = await stage.rpc.getMinimumBalanceForRentExemption(SUBSCRIPTION_LENGTH);
  t.ok(gained < rent && gained > rent - 15_000n, `${gained} lamports: the rent less one fee`);
  const [booked] = await stage.sql`
    select subscription_rent as rent, subscription_returned_at is not null as subscription,
      authority_returned_at is not null as authority
    from sponsorships where purpose = 'subscribe'`;
  t.same(booked, { rent, subscription: true, authority: false }, 'the books have it at once');
  const facts = await readSponsoringFacts(stage.sql);
  t.equal(facts.out, await stage.rpc.getMinimumBalanceForRentExemption(AUTHORITY_LENGTH));
  const { context } = stage.sponsor({
    sendTransaction: () => Promise.reject(new Error('there is nothing to close')),
  });
  await stage.sql`update sponsorships set checked_at = now() - interval '2 days'`;
  await takeRentBack(context);
});

void t.test('a transaction without room for a wallet’s assertions is not sponsored', async (t) => {
  const party = await scene(t);
  const { stage, plan } = party;
  const [wallet, payer] = [stage.wallet({ usdc: 20_000_000n }), stage.wallet()];
  const pda = await stage.open(plan, wallet, payer);
  const { programId } = stage.net;
  await stage.send(
    [wallet],
    cancelInstructions(programId, {
      subscriber: wallet.address,
      plan: plan.pda,
      subscription: pda,
    }),
  );
  stage.passHours(721);
  stage.net.mineBlocks(2);
  const asked = await stage.ask(plan, wallet.address);
  t.match(asked.body.data, { offer: null, notSponsored: { code: 'no_room' } });
});
