// A keeper judges a live account and registers it some reads of the chain later. Meanwhile the
// account's registration ends or is replaced, or the wallet opens another account at the address.
// And the relay gets a transaction again whose registration has ended.
import t, { type Test } from 'tap';
import { closeAuthority, revokeAbandoned } from '../../src/chain/program/instructions.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { resumeInstructions } from '../../src/chain/transactions/subscriptions.ts';
import { holdCancel } from '../../src/domain/change/cancel.ts';
import { Unregistered } from '../../src/keeper/follow/unregistered.ts';
import { type ApiStage, type Buyer, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan, Subscription } from '../fixtures/billing.ts';

const AMOUNT = 5_000_000n;

const rowsOf = (stage: ApiStage, { wallet }: { wallet: string }) =>
  stage.sql<{ id: string; status: string }[]>`
    select id, status from subscriptions where subscriber_wallet = ${wallet} order by id`;

/** A plan of an app with registerUnclaimed, and a change to a dearer plan of the app. */
async function begin(t: Parameters<typeof startApiStage>[0]) {
  const stage = await startApiStage(t);
  const plan = await stage.plan({ amount: AMOUNT });
  const { appId, merchant } = plan;
  const other = await stage.plan({ amount: 2n * AMOUNT, merchant });
  await stage.sql`update plans set app_id = ${appId} where id = ${other.id}`;
  const { token } = await stage.seller(plan);
  const call = <T>(method: 'GET' | 'POST' | 'PATCH', path: string, body?: object) =>
    stage.api.call<T>(method, `/merchant/apps/${appId}${path}`, {
      ...{ token, ...(body !== undefined && { body }) },
    });
  await call('PATCH', '', { registerUnclaimed: true });
  const listed = async () =>
    (await call<{ subscriberWallet: string }[]>('GET', '/unregistered')).body.data.length;
  return { stage, plan, other: { ...other, appId }, call, listed };
}

type Scene = Awaited<ReturnType<typeof begin>>;

/**
 * A turn of a keeper that judges the account at `pda`. Each step happens after the keeper's
 * endpoint has answered one reading of the account, and before the keeper has the answer.
 */
async function judgeSlowly(
  stage: ApiStage,
  pda: string,
  steps: readonly (() => Promise<unknown>)[],
): Promise<Unregistered> {
  const left = [...steps];
  const { context } = stage.parts({
    getMultipleAccounts: async (addresses, options) => {
      const found = await stage.rpc.getMultipleAccounts(addresses, options);
      if (addresses.includes(pda)) await left.shift()?.();
      return found;
    },
  });
  const slow = new Unregistered(context, () => undefined);
  slow.see(pda, { slot: 0n, data: Buffer.alloc(0) });
  await slow.turn();
  if (left.length > 0) throw new Error(`the keeper has left out ${left.length} steps`);
  return slow;
}

async function register({ plan }: Scene, buyer: Buyer, pda: string): Promise<Subscription> {
  const { status, body } = await buyer.register(pda);
  if (status !== 201) throw new Error(JSON.stringify(body));
  return { id: body.data.id, pda, wallet: buyer.keypair, plan };
}

/** Asks for a transaction and signs it, for the relay. */
async function signedOffer(buyer: Buyer, path: string, body?: object) {
  const asked = await buyer.post<{ transaction: string; offerId: string }>(path, body);
  const { transaction, offerId } = asked.body.data;
  return { transaction: addSignature(buyer.keypair, transaction), offerId };
}

const relay = (buyer: Buyer, body: object) =>
  buyer.post<{ status: string; subscription: { id: string } | null }>('transactions', body);

/** Changes to the other plan by the relay, and resumes the old account by other means. */
async function changeAndResume({ stage, other }: Scene, buyer: Buyer, old: Subscription) {
  const given = { planId: other.id, when: 'now' };
  await relay(buyer, await signedOffer(buyer, `subscriptions/${old.id}/change`, given));
  const { expiresAt } = (await stage.onChain(old))!;
  const { net } = stage;
  const account = { plan: old.plan.pda, subscription: old.pda, mint: net.mint, expiresAt };
  const resume = resumeInstructions(net.programId, { subscriber: buyer.wallet, ...account });
  await stage.send([buyer.keypair], resume);
}

async function endHere({ stage }: Scene, { id }: Subscription): Promise<void> {
  const keeper = await stage.startKeeper();
  await stage.sql.begin((tx) => holdCancel(tx, { id }));
  await stage.until('it has ended', async () => {
    const [row] = await stage.sql`select 1 from subscriptions
      where id = ${id} and status = 'cancelled'`;
    return row !== undefined;
  });
  await keeper.stop();
}

/** Closes the account by its authority, and opens another one at the address. */
async function reopen(stage: ApiStage, plan: Plan, { keypair, wallet: user }: Buyer, pda: string) {
  const { programId, mint } = stage.net;
  await stage.send([keypair], [closeAuthority(programId, { user, mint })]);
  const parties = { authority: user, subscriber: user, mint, plan: plan.pda, subscription: pda };
  await stage.send([keypair], [revokeAbandoned(programId, parties)]);
  await stage.open(plan, keypair);
}

/** A keeper starts with money to collect: it registers and charges nothing. */
async function startsInVain(t: Test, { stage, listed }: Scene, buyer: Buyer, rows: number) {
  stage.net.fund(buyer.wallet, { usdc: 10n * AMOUNT });
  const paid = () => stage.sql`select 1 from payments
    where subscriber_wallet = ${buyer.wallet} and status = 'succeeded'`;
  const before = (await paid()).length;
  const keeper = await stage.startKeeper();
  const further = await stage.open(buyer.plan, stage.wallet());
  await stage.until('a keeper has registered a further account', async () => {
    const found = await stage.sql`select 1 from subscriptions where subscription_pda = ${further}`;
    return found.length === 1;
  });
  stage.net.passSeconds(200);
  await stage.quiet();
  await keeper.stop();
  t.equal((await rowsOf(stage, buyer)).length, rows, 'not registered again');
  t.equal((await paid()).length, before, 'nothing is charged');
  return listed();
}

const HOW = ['by force', 'here', 'by a change of plan'] as const;

/** Ends or replaces a subscription; its account lives on. */
async function endOrReplace(
  scene: Scene,
  how: (typeof HOW)[number],
  buyer: Buyer,
  of: Subscription,
) {
  if (how === 'here') await endHere(scene, of);
  else if (how === 'by a change of plan') await changeAndResume(scene, buyer, of);
  else await scene.call('POST', `/subscriptions/${of.id}/cancel`, { mode: 'force' });
}

for (const how of HOW)
  void t.test(
    `a keeper stores nothing if the account was registered and ended ${how} during the keeper's check`,
    async (t) => {
      const scene = await begin(t);
      const { stage, plan } = scene;
      const buyer = await stage.buyer(plan, {
        usdc: how === 'by a change of plan' ? 20n * AMOUNT : 1n,
      });
      const pda = await buyer.subscribe();
      let first: Subscription;
      const slow = await judgeSlowly(stage, pda, [
        async () => (first = await register(scene, buyer, pda)),
        () => endOrReplace(scene, how, buyer, first),
      ]);
      const rows = how === 'by a change of plan' ? 2 : 1;
      t.equal((await rowsOf(stage, buyer)).length, rows, 'the keeper stores nothing');
      await slow.turn();
      const listed = how === 'by a change of plan' ? 1 : 0;
      t.equal(await scene.listed(), listed, 'only a replaced one that was resumed is listed');
      t.equal((await rowsOf(stage, buyer)).length, rows, 'neither when it judges again');
      if (rows === 1) t.equal(await startsInVain(t, scene, buyer, rows), 0);
    },
  );

void t.test(
  'a keeper stores nothing if another account was opened, registered and ended during its check',
  async (t) => {
    const scene = await begin(t);
    const { stage, plan } = scene;
    const buyer = await stage.buyer(plan, { usdc: 1n });
    const pda = await stage.open(plan, buyer.keypair);
    const slow = await judgeSlowly(stage, pda, [
      async () => {
        await reopen(stage, plan, buyer, pda);
        await endHere(scene, await register(scene, buyer, pda));
      },
    ]);
    t.equal((await rowsOf(stage, buyer)).length, 1, 'the keeper stores nothing');
    await slow.turn();
    t.equal(await startsInVain(t, scene, buyer, 1), 0);
  },
);

for (const how of HOW)
  void t.test(
    `a transaction that reaches the relay again after an end ${how} registers nothing`,
    async (t) => {
      const scene = await begin(t);
      const { stage, plan } = scene;
      const buyer = await stage.buyer(plan, { usdc: 20n * AMOUNT });
      const signed = await signedOffer(buyer, `plans/${plan.id}/subscribe`);
      const { subscription } = (await relay(buyer, signed)).body.data;
      const { id } = subscription!;
      const [row] = await stage.sql<{ pda: string }[]>`
      select subscription_pda as pda from subscriptions where id = ${id}`;
      const first = { id, pda: row!.pda, wallet: buyer.keypair, plan };
      t.match(
        await relay(buyer, signed),
        { body: { data: { subscription: { id } } } },
        'it is live',
      );
      await endOrReplace(scene, how, buyer, first);
      const before = await rowsOf(stage, buyer);
      const again = await relay(buyer, signed);
      t.match(again, { status: 200, body: { data: { status: 'confirmed', subscription: null } } });
      t.same(await rowsOf(stage, buyer), before, 'nothing is registered');
    },
  );

void t.test('a registration that was read from an earlier account stays ended', async (t) => {
  const scene = await begin(t);
  const { stage, plan } = scene;
  const buyer = await stage.buyer(plan);
  const first = await buyer.buy();
  // Stores what a lagging endpoint showed before the account was opened again, or before a fork.
  await stage.sql`update subscriptions set chain_init_id = chain_init_id - 1,
    chain_period_start = chain_period_start - interval '5 seconds' where id = ${first.id}`;
  const keeper = await stage.startKeeper();
  await stage.until('it is paid', async () => (await stage.payments(first)).length === 1);
  await stage.quiet();
  await keeper.stop();
  await endOrReplace(scene, 'by force', buyer, first);
  t.equal(await startsInVain(t, scene, buyer, 1), 0);
});
