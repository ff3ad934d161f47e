// Offers that landed, while other transactions of the account or of strangers hide that.
import t from 'tap';
import { addSignature, unsignedTransaction } from '../../src/chain/transactions/message.ts';
import {
  cancelInstructions,
  resumeInstructions,
} from '../../src/chain/transactions/subscriptions.ts';
import { Unregistered } from '../../src/keeper/follow/unregistered.ts';
import { type ApiStage, startApiStage } from '../fixtures/api-stage.ts';
import type { Plan } from '../fixtures/billing.ts';
import { naming } from '../fixtures/junk.ts';
import { startPlanChanges } from '../fixtures/plan-changes.ts';
import {
  merchantOf,
  type Offer,
  offerOf,
  paid,
  post,
  registered,
  rowsOf,
} from '../fixtures/shown-terms.ts';

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Makes the history of the address longer than what is read of it. */
async function flood(stage: ApiStage, address: string) {
  const stranger = stage.wallet();
  await stage.until(
    'funded',
    async () => (await stage.rpc.getMultipleAccounts([stranger.address])).accounts[0] !== null,
  );
  const { blockhash } = await stage.rpc.getLatestBlockhash();
  for (let index = 0; index < 11; index += 1) {
    const instruction = naming(stranger.address, [address], BigInt(index + 1));
    const unsigned = unsignedTransaction(stranger.address, [instruction], blockhash);
    await stage.rpc.sendTransaction(Buffer.from(addSignature(stranger, unsigned), 'base64'));
  }
  await stage.until(
    'flooded',
    async () => (await stage.rpc.getSignaturesForAddress(address)).length >= 12,
  );
}

for (const registerUnclaimed of [true, false])
  void t.test(
    `a landed change is charged as shown after cancel and resume, registerUnclaimed: ${registerUnclaimed}`,
    async (t) => {
      const scene = await startPlanChanges(t, [5, 25]);
      const { stage, buyer, ask, resume } = scene;
      const [small, large] = scene.plans as [Plan, Plan];
      const keeper = await stage.startKeeper();
      const first = await buyer.buy();
      await stage.quiet();
      const merchant = await merchantOf(stage, small);
      await merchant.patch({ registerUnclaimed });
      await keeper.stop();
      const before = await stage.balance(buyer.wallet);
      const shown = await ask(first, large);
      await stage.land(buyer.keypair, shown.transaction);
      const second = { id: '', pda: shown.subscriptionPda, wallet: buyer.keypair, plan: large };
      await stage.send(
        [buyer.keypair],
        cancelInstructions(stage.net.programId, {
          subscriber: buyer.wallet,
          plan: large.pda,
          subscription: second.pda,
        }),
      );
      await resume(second);
      await stage.startKeeper();
      await stage.until(
        'decided',
        async () =>
          (await rowsOf(stage, buyer)).length === 2 || (await merchant.unregistered()).length > 0,
      );
      stage.net.passSeconds(150);
      await stage.quiet();
      const charged = before - (await stage.balance(buyer.wallet));
      const rows = await rowsOf(stage, buyer);
      t.ok(
        charged <= BigInt(shown.today) + 1000n,
        `shown ${shown.today} charged ${charged} rows ${rows.length} ${(await merchant.unregistered()).length}`,
      );
      if (registerUnclaimed) t.equal(rows[1]?.replaces, first.id);
    },
  );

void t.test(
  'a wallet that names its offer while the keeper waits is charged no more than was shown',
  async (t) => {
    const scene = await startPlanChanges(t, [5, 25]);
    const { stage, buyer, ask } = scene;
    const [small, large] = scene.plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    const merchant = await merchantOf(stage, small);
    await merchant.patch({ registerUnclaimed: true });
    await keeper.stop();
    const before = await stage.balance(buyer.wallet);
    const shown = (await ask(first, large)) as unknown as Offer & { today: string };
    await stage.land(buyer.keypair, shown.transaction);
    const { programId, mint } = stage.net;
    const of = { subscriber: buyer.wallet, plan: large.pda, subscription: shown.subscriptionPda };
    await stage.send([buyer.keypair], cancelInstructions(programId, of));
    const { expiresAt } = (await stage.onChain({
      id: '',
      pda: shown.subscriptionPda,
      wallet: buyer.keypair,
      plan: large,
    }))!;
    await stage.send([buyer.keypair], resumeInstructions(programId, { ...of, mint, expiresAt }));
    await stage.startKeeper();
    await registered(stage, buyer, 2);
    await stage.quiet();
    const { status, body } = await buyer.post('subscriptions', {
      appId: large.appId,
      planId: large.id,
      subscriptionPda: shown.subscriptionPda,
      offerId: shown.offerId,
    });
    await stage
      .until('paid', async () => (await paid(stage, buyer)).length === 2)
      .catch(() => undefined);
    const charged = before - (await stage.balance(buyer.wallet));
    t.ok(
      status !== 201 || charged <= BigInt(shown.today) + 1000n,
      `POST ${status} ${JSON.stringify(body.error ?? {})}; shown ${shown.today}, charged ${charged}`,
    );
  },
);

for (const how of ['flood', 'resumed elsewhere'] as const)
  for (const isPlainAsked of [false, true])
    void t.test(
      `a landed sign-up in a session of another wallet (${how}) is listed, not charged; plain offer: ${isPlainAsked}`,
      async (t) => {
        const stage = await startApiStage(t);
        const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
        const merchant = await merchantOf(stage, plan);
        await merchant.patch({ registerUnclaimed: !isPlainAsked });
        const session = await merchant.session({
          externalId: 'alice',
          discount: { percentOff: 50 },
        });
        const [one, two] = [await stage.buyer(plan), await stage.buyer(plan)];
        const offer = await offerOf(one, { checkoutSessionId: session.id });
        const other = await offerOf(two, { checkoutSessionId: session.id });
        if (isPlainAsked) {
          const { blockhash: before } = await stage.rpc.getLatestBlockhash();
          await stage.until(
            'another',
            async () => (await stage.rpc.getLatestBlockhash()).blockhash !== before,
          );
          await offerOf(one);
        }
        await stage.land(one.keypair, offer.transaction);
        await stage.land(two.keypair, other.transaction);
        t.equal(
          (await post(two, other.subscriptionPda, { checkoutSessionId: session.id })).status,
          201,
        );
        if (how === 'flood') await flood(stage, offer.subscriptionPda);
        else {
          const { programId, mint } = stage.net;
          const of = {
            subscriber: one.wallet,
            plan: plan.pda,
            subscription: offer.subscriptionPda,
          };
          await stage.send([one.keypair], cancelInstructions(programId, of));
          const account = (await stage.onChain({
            id: '',
            pda: offer.subscriptionPda,
            wallet: one.keypair,
            plan,
          }))!;
          await stage.send(
            [one.keypair],
            resumeInstructions(programId, { ...of, mint, expiresAt: account.expiresAt }),
          );
        }
        await stage.startKeeper();
        await stage.until(
          'decided',
          async () =>
            (await rowsOf(stage, one)).length === 1 || (await merchant.unregistered()).length === 1,
        );
        stage.net.passSeconds(130);
        await stage.quiet();
        t.same(await paid(stage, one), [], 'it is listed, and only its wallet registers it');
        t.equal((await merchant.unregistered()).length, 1);
      },
    );

void t.test(
  'a landed change is registered as a change while the history shows only an earlier account',
  async (t) => {
    const scene = await startPlanChanges(t, [5, { amount: 25, hours: 24 }]);
    const { stage, buyer, ask } = scene;
    const [small, large] = scene.plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await keeper.stop();
    const merchant = await merchantOf(stage, small);
    const pda = await stage.open(large, buyer.keypair);
    await stage.send(
      [buyer.keypair],
      cancelInstructions(stage.net.programId, {
        subscriber: buyer.wallet,
        plan: large.pda,
        subscription: pda,
      }),
    );
    stage.passHours(25);
    stage.net.mineBlocks(2);
    await merchant.patch({ registerUnclaimed: true });
    const before = await stage.balance(buyer.wallet);
    const shown = await ask(first, large);
    await stage.land(buyer.keypair, shown.transaction);
    const { context } = stage.parts({
      getSignaturesForAddress: async (address, options) => {
        const listed = await stage.rpc.getSignaturesForAddress(address, options);
        return address === pda ? listed.slice(1) : listed;
      },
    });
    const lagging = new Unregistered(context, () => undefined);
    for (let i = 0; i < 3; i += 1) {
      await lagging.turn();
      lagging.gap();
    }
    await stage.startKeeper();
    await stage.until(
      'registered or listed',
      async () => (await rowsOf(stage, buyer)).length === 2,
    );
    stage.net.passSeconds(130);
    await stage.quiet();
    const charged = before - (await stage.balance(buyer.wallet));
    const rows = await rowsOf(stage, buyer);
    t.equal(rows[1]?.replaces, first.id, `shown ${shown.today}, charged ${charged}`);
  },
);

void t.test(
  'a landed change whose transaction no endpoint returns yet is registered as a change',
  async (t) => {
    const scene = await startPlanChanges(t, [5, { amount: 25, hours: 24 }]);
    const { stage, buyer, ask } = scene;
    const [small, large] = scene.plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await keeper.stop();
    const merchant = await merchantOf(stage, small);
    const pda = await stage.open(large, buyer.keypair);
    await stage.send(
      [buyer.keypair],
      cancelInstructions(stage.net.programId, {
        subscriber: buyer.wallet,
        plan: large.pda,
        subscription: pda,
      }),
    );
    stage.passHours(25);
    stage.net.mineBlocks(2);
    await merchant.patch({ registerUnclaimed: true });
    const before = await stage.balance(buyer.wallet);
    const shown = await ask(first, large);
    const landed = await stage.land(buyer.keypair, shown.transaction);
    const { context } = stage.parts({
      getTransaction: async (signature, options) =>
        signature === landed
          ? { signature, unreadable: 'missing' }
          : stage.rpc.getTransaction(signature, options),
    });
    const unregistered = new Unregistered(context, () => undefined);
    for (let i = 0; i < 3; i += 1) {
      await unregistered.turn();
      unregistered.gap();
    }
    await stage.startKeeper();
    await stage.until('registered', async () => (await rowsOf(stage, buyer)).length === 2);
    stage.net.passSeconds(130);
    await stage.quiet();
    const charged = before - (await stage.balance(buyer.wallet));
    t.equal(
      (await rowsOf(stage, buyer))[1]?.replaces,
      first.id,
      `shown ${shown.today}, charged ${charged}`,
    );
  },
);

for (const isFlooded of [false, true])
  void t.test(
    `a change that resumed an account is registered or listed, flooded history: ${isFlooded}`,
    async (t) => {
      const scene = await startPlanChanges(t, [5, 25]);
      const { stage, buyer, ask, act } = scene;
      const [small, large] = scene.plans as [Plan, Plan];
      const merchant = await merchantOf(stage, small);
      const pda = await stage.open(large, buyer.keypair);
      const made = await buyer.post<{ id: string }>('subscriptions', {
        appId: large.appId,
        planId: large.id,
        subscriptionPda: pda,
      });
      t.equal(made.status, 201);
      for (const [verb, body] of [['cancel', { mode: 'force' }], ['reinstate']] as const)
        t.equal((await act(made.body.data.id, verb, body as object)).status, 200);
      await stage.send(
        [buyer.keypair],
        cancelInstructions(stage.net.programId, {
          subscriber: buyer.wallet,
          plan: large.pda,
          subscription: pda,
        }),
      );
      const keeper = await stage.startKeeper();
      const first = await buyer.buy();
      await stage.quiet();
      t.equal((await stage.payments(first)).length, 1);
      await keeper.stop();
      const shown = await ask(first, large);
      await stage.land(buyer.keypair, shown.transaction);
      if (isFlooded) {
        await flood(stage, pda);
      }
      await stage.startKeeper();
      await wait(5000);
      await stage.quiet();
      const rows = await rowsOf(stage, buyer);
      const listed = (await merchant.unregistered()).length;
      t.ok(rows.length === 3 || listed === 1, `registered ${rows.length === 3}, listed ${listed}`);
      if (rows.length === 3) t.equal(rows[2]?.replaces, first.id);
    },
  );

void t.test(
  'registering with the offer of an expired checkout while the history is flooded gets CONFLICT',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: 5_000_000n, periodHours: 720 });
    const merchant = await merchantOf(stage, plan);
    const session = await merchant.session({ externalId: 'alice', discount: { percentOff: 50 } });
    const buyer = await stage.buyer(plan);
    const { offerId, transaction, subscriptionPda } = await offerOf(buyer, {
      checkoutSessionId: session.id,
    });
    await stage.land(buyer.keypair, transaction);
    await flood(stage, subscriptionPda);
    await stage.sql`update checkout_sessions set expires_at = now() - interval '1 second'`;
    t.equal((await post(buyer, subscriptionPda, { offerId })).status, 409);
    t.same(await rowsOf(stage, buyer), [], 'not with dearer terms');
  },
);

void t.test(
  'registering a change an hour later with a flooded history gets CONFLICT, because its credit is unknown',
  async (t) => {
    const scene = await startPlanChanges(t, [5, { amount: 25, hours: 24 }]);
    const { stage, buyer, ask } = scene;
    const [, large] = scene.plans as [Plan, Plan];
    const keeper = await stage.startKeeper();
    const first = await buyer.buy();
    await stage.quiet();
    await keeper.stop();
    const { offerId, transaction, subscriptionPda } = (await ask(first, large)) as unknown as Offer;
    await stage.land(buyer.keypair, transaction);
    await flood(stage, subscriptionPda);
    stage.passHours(1);
    const of = { appId: large.appId, planId: large.id, subscriptionPda, offerId };
    const { status, body } = await buyer.post('subscriptions', of);
    t.equal(status, 409);
    t.match(body.error?.details, [{ path: 'offerId' }]);
    t.match(await rowsOf(stage, buyer), [{ id: first.id, status: 'active' }]);
  },
);
