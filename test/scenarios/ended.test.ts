// Subscriptions that ended here, or that a change of plan replaced, while their accounts on chain
// live on: all ends side by side, a wallet for each. Only a transaction of the service that the
// wallet asked for afterwards brings one back by a keeper.
import t from 'tap';
import type { Keypair } from '../../src/chain/keypair.ts';
import {
  addressBytes,
  authorityAddress,
  planAddress,
  subscriptionAddress,
} from '../../src/chain/program/addresses.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { resumeInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { recordRelayed } from '../../src/db/offers/offers.ts';
import { holdCancel } from '../../src/domain/change/cancel.ts';
import {
  checkRegistration,
  storeRegistration,
} from '../../src/domain/registration/registration.ts';
import { Unregistered } from '../../src/keeper/follow/unregistered.ts';
import { type ApiStage, type Buyer, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan, Subscription } from '../fixtures/billing.ts';

const HOURS = 720;
const DAY = 24;
const AMOUNT = 5_000_000n;

interface Ended {
  buyer: Buyer;
  first: Subscription;
}

const rowsOf = (stage: ApiStage, { wallet }: { wallet: string }) =>
  stage.sql<{ id: string; status: string; unclaimed: boolean; billedFrom: Date | null }[]>`
    select id, status, unclaimed, billed_from from subscriptions
    where subscriber_wallet = ${wallet} order by id`;

async function merchantOf(stage: ApiStage, plan: Plan) {
  const { token } = await stage.seller(plan);
  const path = `/merchant/apps/${plan.appId}`;
  const call = <T>(method: 'GET' | 'POST' | 'PATCH', rest: string, body?: object) =>
    stage.api.call<T>(method, `${path}${rest}`, { token, ...(body !== undefined && { body }) });
  return {
    call,
    setRule: (registerUnclaimed: boolean) => call('PATCH', '', { registerUnclaimed }),
    end: ({ id }: Subscription, mode: 'period_end' | 'force') =>
      call('POST', `/subscriptions/${id}/cancel`, { mode }),
    listed: async () =>
      (await call<{ subscriberWallet: string }[]>('GET', '/unregistered')).body.data
        .map(({ subscriberWallet }) => subscriberWallet)
        .sort(),
    counted: async () =>
      (await call<{ unregistered: number }>('GET', '/attention')).body.data.unregistered,
  };
}

/** Resumes the cancelled account with a client of the wallet's own. */
async function resume(stage: ApiStage, { buyer, first }: Ended): Promise<void> {
  const { net } = stage;
  const { expiresAt } = (await stage.onChain(first))!;
  await stage.send(
    [buyer.keypair],
    resumeInstructions(net.programId, {
      ...{ subscriber: buyer.wallet, plan: first.plan.pda, subscription: first.pda },
      ...{ mint: net.mint, expiresAt },
    }),
  );
}

/** Changes to `to` now, through the relay. */
async function change(buyer: Buyer, old: Subscription, to: Plan): Promise<void> {
  const asked = await buyer.post<{ transaction: string; offerId: string }>(
    `subscriptions/${old.id}/change`,
    { planId: to.id, when: 'now' },
  );
  const { transaction, offerId } = asked.body.data;
  const signed = { transaction: addSignature(buyer.keypair, transaction), offerId };
  const sent = await buyer.post<{ subscription: object | null }>('transactions', signed);
  if (sent.body.data.subscription === null) throw new Error(JSON.stringify(sent.body));
}

/** Waits until a keeper has registered or listed these accounts, which their wallets opened. */
async function handled(stage: ApiStage, pdas: readonly string[]): Promise<void> {
  await stage.until('a keeper has handled further accounts', async () => {
    const rows = await stage.sql`
      select subscription_pda from subscriptions where subscription_pda = any(${[...pdas]})
      union select subscription_pda from unregistered_subscriptions
        where subscription_pda = any(${[...pdas]})`;
    return rows.length === pdas.length;
  });
}

/**
 * Starts a keeper, and waits until it has listed and handled the accounts of these plans. A further
 * account of each plan, opened before the start, shows that the plan is listed. An account that is
 * opened after that is handled in a later turn.
 */
async function startAndList(stage: ApiStage, plans: readonly Plan[]) {
  const pdas: string[] = [];
  for (const plan of plans) pdas.push(await stage.open(plan, stage.wallet()));
  const keeper = await stage.startKeeper();
  await handled(stage, pdas);
  await handled(stage, [await stage.open(plans[0]!, stage.wallet())]);
  await stage.quiet();
  return keeper;
}

const hasStatus = async (stage: ApiStage, { first }: Ended, ...wanted: string[]) =>
  wanted.includes((await stage.row(first)).status);

/** Every end of a subscription, and where each account then is on chain. */
async function allEnds(stage: ApiStage) {
  const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
  const { merchant, appId } = plan;
  const other = await stage.plan({ amount: 2n * AMOUNT, periodHours: HOURS, merchant });
  const endTs = BigInt(stage.now() + (HOURS + 48) * 3600);
  const ending = await stage.plan({ amount: AMOUNT, periodHours: HOURS, merchant, endTs });
  await stage.sql`update plans set app_id = ${appId} where id in (${other.id}, ${ending.id})`;
  const seller = await merchantOf(stage, plan);
  const buy = async (of: Plan): Promise<Ended> => {
    const buyer = await stage.buyer(of, { usdc: of === plan ? AMOUNT : 5n * AMOUNT });
    return { buyer, first: await buyer.buy() };
  };
  const ends = {
    merchant: await buy(plan),
    forced: await buy(plan),
    onChain: await buy(plan),
    here: await buy(plan),
    pastDue: await buy(plan),
    replaced: await buy(plan),
    reopened: await buy(plan),
    planEnded: await buy({ ...ending, appId }),
  };
  await stage.quiet();
  for (const { first } of Object.values(ends))
    if ((await stage.payments(first)).length !== 1) throw new Error('a first payment is missing');
  await seller.end(ends.merchant.first, 'period_end');
  await seller.end(ends.forced.first, 'force');
  await ends.onChain.buyer.cancel(ends.onChain.first);
  await ends.reopened.buyer.cancel(ends.reopened.first);
  await stage.sql.begin((tx) => holdCancel(tx, { id: ends.here.first.id }));
  stage.net.fund(ends.replaced.buyer.wallet, { usdc: 5n * AMOUNT });
  await change(ends.replaced.buyer, ends.replaced.first, { ...other, appId });
  await resume(stage, ends.replaced);
  await stage.quiet();
  stage.passHours(HOURS + 1);
  await stage.until('the unpaid one is past due', () =>
    hasStatus(stage, ends.pastDue, 'past_due', 'expired'),
  );
  stage.passHours(8 * DAY);
  for (const [name, one] of Object.entries(ends))
    await stage.until(`${name} has ended`, () => hasStatus(stage, one, 'cancelled', 'expired'));
  const { buyer, first } = ends.reopened;
  const closing = await buyer.post<{ transaction: string }>(`subscriptions/${first.id}/close`);
  await stage.land(buyer.keypair, closing.body.data.transaction);
  await stage.open(plan, buyer.keypair);
  for (const one of Object.values(ends)) stage.net.fund(one.buyer.wallet, { usdc: 20n * AMOUNT });
  await stage.quiet();
  return { plans: [plan, { ...other, appId }], seller, ends };
}

/**
 * How many registrations and payments the address of each subscription has, and how much was pulled
 * from its account in the running period.
 */
async function stateOf(stage: ApiStage, ends: Readonly<Record<string, Ended>>) {
  const state: Record<string, object> = {};
  for (const [name, { first }] of Object.entries(ends)) {
    const [row] = await stage.sql<{ rows: number; payments: number }[]>`
      select (select count(*)::int from subscriptions where subscription_pda = ${first.pda}) as rows,
        (select count(*)::int from payments where subscription_pda = ${first.pda}
          and status = 'succeeded') as payments`;
    const account = await stage.onChain(first);
    state[name] = { ...row, pulled: account?.amountPulled, since: account?.periodStart };
  }
  return state;
}

async function stopOf(stage: ApiStage, { id }: Subscription): Promise<Date | null> {
  const [row] = await stage.sql<{ stoppedAt: Date | null }[]>`
    select stopped_at from subscriptions where id = ${id}`;
  return row!.stoppedAt;
}

/** The relay takes the transaction of this offer, as an older release did after the end too. */
const relays = (stage: ApiStage, id: string) =>
  recordRelayed(
    stage.sql,
    { id },
    { signature: id, blockhash: id, lastValidBlockHeight: 0n, slot: 0n },
  );

void t.test(
  'an ended subscription stays ended after restarts, an upgrade and registerUnclaimed',
  async (t) => {
    const stage = await startApiStage(t);
    let keeper = await stage.startKeeper();
    const { plans, seller, ends } = await allEnds(stage);
    const { id: planId, appId } = plans[0]!;
    const restart = async () => {
      await keeper.stop();
      keeper = await startAndList(stage, plans);
    };
    for (const name of ['merchant', 'forced', 'here', 'pastDue', 'replaced'] as const)
      t.equal((await stage.onChain(ends[name].first))?.expiresAt, 0n, `${name} lives on chain`);
    const { replaced, reopened, ...others } = ends;
    const before = await stateOf(stage, ends);
    const wanted = [replaced.buyer.wallet, reopened.buyer.wallet].sort();

    await t.test(
      'a restarted keeper registers no ended subscription and unlists those that were listed',
      async (t) => {
        for (const { buyer, first } of Object.values(others))
          await stage.sql`
          insert into unregistered_subscriptions (app_id, plan_id, subscription_pda,
            subscriber_wallet)
          values (${appId}, ${planId}, ${first.pda}, ${buyer.wallet}) on conflict do nothing`;
        await restart();
        const listed = await seller.listed();
        t.same(
          listed.filter((wallet) =>
            Object.values(ends).some(({ buyer }) => buyer.wallet === wallet),
          ),
          wanted,
          'only a replaced one that was resumed, and an account that was never registered',
        );
        t.equal(await seller.counted(), listed.length);
        t.same(await stateOf(stage, ends), before);
      },
    );

    await t.test('offers that an upgrade left open bring no ended subscription back', async (t) => {
      await stage.sql`update offers set registered_at = null where sponsor is null`;
      await restart();
      t.same(await stateOf(stage, ends), before);
      await stage.sql`update offers set registered_at = now() where sponsor is null`;
    });

    await t.test(
      'turning on registerUnclaimed registers only the account that was opened anew',
      async (t) => {
        await seller.setRule(true);
        await restart();
        await stage.until('the reopened account is registered', async () => {
          return (await rowsOf(stage, reopened.buyer)).length === 2;
        });
        await stage.quiet();
        const { reopened: now, ...still } = await stateOf(stage, ends);
        t.same({ ...still, reopened: before.reopened }, before);
        t.match(now, { rows: 2 });
        t.same(await seller.listed(), [replaced.buyer.wallet]);
      },
    );

    await t.test(
      'after a gap a keeper reads replaced accounts again, and no ended ones',
      async (t) => {
        await keeper.stop();
        const asked = new Set<string>();
        const { context } = stage.parts({
          getMultipleAccounts: (addresses, options) => {
            for (const address of addresses) asked.add(address);
            return stage.rpc.getMultipleAccounts(addresses, options);
          },
        });
        const unregistered = new Unregistered(context, () => undefined);
        for (let turn = 0; turn < 3; turn += 1) {
          await unregistered.turn();
          unregistered.gap();
        }
        t.ok(asked.has(replaced.first.pda), 'the replaced one is looked at');
        for (const [name, { first }] of Object.entries(others))
          t.notOk(asked.has(first.pda), `${name} is left out`);
        const now = await stateOf(stage, ends);
        t.same({ ...now, reopened: before.reopened }, before);
        keeper = await stage.startKeeper();
      },
    );

    await t.test(
      'a registration that a keeper checked before the subscription ended is not stored',
      async (t) => {
        const { first, buyer } = ends.here;
        const { net, rpc } = stage;
        const network = {
          ...{ programId: net.programId, mint: net.mint },
          ...{ puller: stage.keeper.address, treasury: stage.treasury.address },
        };
        const registration = await checkRegistration(stage.sql, rpc, network, {
          ...{ appId, planId, subscriptionPda: first.pda, wallet: buyer.wallet },
        });
        const account = (await stage.onChain(first))!;
        const newest = { id: first.id, stoppedAt: (await stopOf(stage, first))!, replacedBy: null };
        const others = [
          undefined,
          { newest: undefined, account },
          { newest: { ...newest, id: ends.merchant.first.id }, account },
          { newest: { ...newest, stoppedAt: null }, account },
          { newest: { ...newest, replacedBy: ends.replaced.first.id }, account },
          { newest, account: { ...account, initId: account.initId + 1n } },
        ];
        for (const judged of others)
          await t.rejects(
            stage.sql.begin((tx) =>
              storeRegistration(tx, {
                ...registration,
                ...{ isUnclaimed: true, ...(judged && { judged }) },
              }),
            ),
            { code: 'CONFLICT', message: /changed meanwhile/ },
          );
      },
    );

    await t.test('ended subscriptions stay ended after a month', async (t) => {
      stage.passHours(HOURS);
      await restart();
      const now = await stateOf(stage, ends);
      t.same({ ...now, reopened: before.reopened }, before);
    });

    await t.test(
      'the wallet’s own request registers an ended subscription again, and it is charged',
      async (t) => {
        const { buyer, first } = ends.here;
        t.equal((await buyer.register(first.pda)).status, 201);
        await stage.quiet();
        const rows = await rowsOf(stage, buyer);
        t.match(rows, [{ id: first.id }, { status: 'active', unclaimed: false }]);
        t.equal((await stage.payments({ ...first, id: rows[1]!.id })).length, 1);
      },
    );
  },
);

void t.test(
  'an offer after the end brings a subscription back and charges from the resume on',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    await stage.sql`update plans set trial_hours = ${7 * DAY} where id = ${plan.id}`;
    const seller = await merchantOf(stage, plan);
    await seller.setRule(true);
    const keeper = await stage.startKeeper();
    const cancelled = async (): Promise<Ended> => {
      const buyer = await stage.buyer(plan);
      const first = await buyer.buy();
      await buyer.cancel(first);
      return { buyer, first };
    };
    const ends = {
      asks: await cancelled(),
      relays: await cancelled(),
      askedBefore: await cancelled(),
      alone: await cancelled(),
    };
    const resumeOffer = async ({ buyer, first }: Ended) =>
      (await buyer.post<{ offerId: string }>(`subscriptions/${first.id}/resume`)).body.data.offerId;
    const [relayed, sent] = [await resumeOffer(ends.relays), await resumeOffer(ends.askedBefore)];
    await relays(stage, sent);
    stage.passHours(8 * DAY);
    for (const [name, one] of Object.entries(ends))
      await stage.until(`${name} has ended`, () => hasStatus(stage, one, 'cancelled', 'expired'));

    await stage.sql`update offers set registered_at = null where purpose = 'subscribe'`;
    t.equal((await ends.asks.buyer.offer()).status, 200);
    await relays(stage, relayed);
    for (const one of Object.values(ends)) await resume(stage, one);
    for (const { buyer } of [ends.asks, ends.relays])
      await stage.until('a keeper has registered it', async () => {
        return (await rowsOf(stage, buyer)).length === 2;
      });
    await keeper.stop();
    await startAndList(stage, [plan]);
    for (const { buyer, first } of [ends.asks, ends.relays]) {
      const [, second] = await rowsOf(stage, buyer);
      t.match(second, { status: 'active', unclaimed: true });
      const account = (await stage.onChain(first))!;
      const from = BigInt(second!.billedFrom!.getTime() / 1000);
      t.ok(from >= account.periodStart + BigInt(8 * DAY * 3600), 'only the rest is charged');
      t.match(await buyer.register(first.pda), { status: 201, body: { data: { id: second!.id } } });
    }
    for (const { buyer } of [ends.askedBefore, ends.alone])
      t.equal((await rowsOf(stage, buyer)).length, 1, 'only its wallet can register it');
    t.same(await seller.listed(), []);
  },
);

/** Gives an address without a private key the accounts of a wallet that has subscribed. */
async function subscribeOffCurve(stage: ApiStage, plan: Plan): Promise<Keypair> {
  const { net, rpc } = stage;
  const { programId, mint } = net;
  const model = stage.wallet();
  const pda = await stage.open(plan, model);
  const { address } = planAddress(programId, model.address, 1n);
  const subscription = subscriptionAddress(programId, plan.pda, address);
  const authority = authorityAddress(programId, address, mint);
  const { accounts } = await rpc.getMultipleAccounts([
    pda,
    authorityAddress(programId, model.address, mint).address,
  ]);
  const copies = [
    { ...subscription, owner: 3, bumpAt: 2 },
    { ...authority, owner: 1, bumpAt: 97 },
  ];
  for (const [index, copy] of copies.entries()) {
    const data = Buffer.from(accounts[index]!.data);
    data.set(addressBytes(address), copy.owner);
    data.writeUInt8(copy.bump, copy.bumpAt);
    const lamports = Number(accounts[index]!.lamports);
    const account = { lamports, data: data.toString('hex'), owner: programId };
    await net.rpc('surfnet_setAccount', copy.address, account);
  }
  net.fund(address, { usdc: 100n * AMOUNT });
  const approval = { delegate: authority.address, delegatedAmount: 100_000_000_000 };
  await net.rpc('surfnet_setTokenAccount', address, mint, approval);
  return { ...model, address };
}

void t.test(
  'a subscription of a wallet that cannot sign in is reinstated after any end, by a keeper',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    const seller = await merchantOf(stage, plan);
    const wallet = await subscribeOffCurve(stage, plan);
    let keeper = await stage.startKeeper();
    const multisig = await stage.register(plan, wallet);
    const buyer = await stage.buyer(plan);
    const person = await buyer.buy();
    await stage.quiet();
    t.equal((await stage.payments(multisig)).length, 1);
    const reinstate = ({ id }: Subscription) =>
      seller.call('POST', `/subscriptions/${id}/reinstate`);
    t.equal((await reinstate(multisig)).status, 409, 'it has not ended');
    for (const one of [multisig, person]) {
      await seller.end(one, 'period_end');
      await stage.quiet();
    }
    stage.passHours(HOURS + DAY);
    for (const one of [multisig, person])
      await stage.until('it has ended', async () => (await stage.row(one)).status === 'cancelled');
    const restart = async () => {
      await keeper.stop();
      keeper = await startAndList(stage, [plan]);
    };
    await restart();
    t.equal((await rowsOf(stage, { wallet: wallet.address })).length, 1);

    t.match(await reinstate(person), { status: 409, body: { error: { message: /by force/ } } });
    t.equal((await reinstate(multisig)).status, 200);
    await restart();
    await stage.until('a keeper has registered it', async () => {
      return (await rowsOf(stage, { wallet: wallet.address })).length === 2;
    });
    await stage.quiet();
    const [, second] = await rowsOf(stage, { wallet: wallet.address });
    t.match(second, { status: 'active', unclaimed: true });
    t.not(second!.billedFrom, null, 'charged from then on');
    const payments = await stage.payments({ ...multisig, id: second!.id });
    t.equal(payments.length, 1);
    t.ok(payments[0]!.amountGross < AMOUNT, 'the rest of the period');
    t.equal((await rowsOf(stage, buyer)).length, 1);
  },
);
