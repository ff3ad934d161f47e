// A sponsored sign-up has landed, and its wallet closes the account before a keeper settles it: the
// subscription is registered as ended, with its payment.
import t, { type Test } from 'tap';
import type { Keypair } from '../../src/chain/keypair.ts';
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { reconcile } from '../../src/cli/operate/reconcile/compare.ts';
import type { Plan } from '../fixtures/billing.ts';
import { closeAccount } from '../fixtures/gone-accounts.ts';
import { type OfferMade, type SponsorStage, startSponsorStage } from '../fixtures/sponsor-stage.ts';

const RANGE = { since: new Date(0), until: new Date('2200-01-01') };
const PRICE = 5_000_000n;

interface Scene {
  readonly stage: SponsorStage;
  readonly plan: Plan;
  readonly wallet: Keypair;
  readonly offer: OfferMade;
  /** The account's init id on chain, read while it existed. */
  readonly initId: bigint;
}

/**
 * A sign-up lands while no keeper settles, and its wallet closes the account. `meanwhile` runs
 * before the wallet cancels.
 */
async function gone(
  t: Test,
  meanwhile: (scene: Omit<Scene, 'initId'>) => Promise<unknown> = () => Promise.resolve(),
): Promise<Scene> {
  const stage = await startSponsorStage(t, { blockMs: 0 });
  stage.net.mineBlocks(20);
  const plan = await stage.plan({ periodHours: 1 });
  stage.net.fund(plan.merchant.address, { usdc: 1n });
  const wallet = stage.poor(50_000_000n);
  const offer = await stage.offer(plan, wallet);
  await stage.sign(offer, wallet);
  await stage.sponsor().sponsor.turn(true);
  stage.net.mineBlocks(40);
  await meanwhile({ stage, plan, wallet, offer });
  const { accounts } = await stage.rpc.getMultipleAccounts([offer.subscriptionPda]);
  const initId = accounts[0]!.data.readBigInt64LE(99);
  await closeAccount(stage, { plan, wallet, pda: offer.subscriptionPda });
  return { stage, plan, wallet, offer, initId };
}

async function settle({ stage }: Scene) {
  await stage.orphan();
  await stage.sponsor().sponsor.turn(true);
}

const compare = ({ stage }: Scene, repair = false) =>
  reconcile(
    {
      ...{ sql: stage.sql, rpc: stage.rpc, programId: stage.net.programId },
      keepers: [stage.keeper.address],
    },
    { ...RANGE, repair },
  );

const booksOf = ({ stage }: Scene) =>
  stage.sql<
    {
      id: string;
      status: string;
      endReason: string | null;
      nextPaymentDue: Date | null;
      pullable: boolean;
      chainInitId: bigint;
      paid: bigint;
      payments: number;
    }[]
  >`
    select s.id, s.status, s.end_reason, s.next_payment_due, s.pullable, s.chain_init_id,
      coalesce(sum(p.amount_gross), 0)::int8 as paid, count(p.id)::int as payments
    from subscriptions s left join payments p on p.subscription_id = s.id
    group by s.id order by s.id`;

const eventsOf = async ({ stage }: Scene) =>
  (
    await stage.sql<{ type: string; body: string }[]>`
      select type, body::text as body from events order by sequence`
  ).map(({ type, body }) => ({
    type,
    data: (JSON.parse(body) as { data: Record<string, unknown> }).data,
  }));

const EVENTS = ['subscription_created', 'payment_success', 'cancel_finalized'];
const ENDED = {
  ...{ status: 'cancelled', endReason: null, nextPaymentDue: null, pullable: false },
  ...{ paid: PRICE, payments: 1 },
};

void t.test(
  'a sign-up whose account is gone is registered as ended and can be refunded',
  async (t) => {
    const scene = await gone(t);
    const { stage, plan, offer, initId } = scene;
    await settle(scene);
    const [booked, ...others] = await booksOf(scene);
    t.match(booked, { ...ENDED, chainInitId: initId });
    t.same(others, []);
    const events = await eventsOf(scene);
    t.same(
      events.map(({ type }) => type),
      EVENTS,
    );
    t.match(events[1]?.data, { nextPaymentDue: null, source: 'keeper' });
    t.match(events[2]?.data, { accountClosed: true, status: 'cancelled' });
    t.match(await stage.progress(offer), { state: 'final', subscriptionId: booked!.id });
    t.same((await compare(scene, true)).differences, []);

    await stage.startKeeper();
    await stage.quiet();
    t.same(
      await booksOf(scene),
      [booked],
      'a keeper reads its history once, and it stays as it is',
    );
    const seller = await stage.seller(plan);
    const [payment] = await stage.sql<{ id: string }[]>`select id from payments`;
    const path = `/merchant/apps/${plan.appId}/transactions/${payment!.id}/refunds`;
    const asked = await stage.api.call<{ transaction: string }>('POST', path, {
      token: seller.token,
    });
    t.equal(asked.status, 201, JSON.stringify(asked.body));
  },
);

void t.test(
  "for a closed sponsored account, pulls by the plan's owner before the close are recorded too",
  async (t) => {
    const scene = await gone(t, async ({ stage, plan, wallet, offer }) => {
      stage.net.passSeconds(3600);
      const pull = transferSubscription(stage.net.programId, {
        ...{ subscriber: wallet.address, plan: plan.pda, subscription: offer.subscriptionPda },
        ...{ caller: plan.merchant.address, receiver: plan.merchant.address },
        ...{ mint: stage.net.mint, amount: PRICE },
      });
      await stage.send([plan.merchant], [pull]);
    });
    await settle(scene);
    const keeper = await scene.stage.startKeeper();
    await scene.stage.quiet();
    await keeper.stop();
    const [booked] = await booksOf(scene);
    t.match(booked, { ...ENDED, payments: 2, paid: BigInt });
    t.same((await compare(scene)).differences, []);
  },
);

void t.test(
  'a sponsored sign-up without a readable transaction waits and raises an alert',
  async (t) => {
    const scene = await gone(t);
    const { stage, offer } = scene;
    await stage.orphan();
    const blind = stage.sponsor({
      getTransaction: (signature) => Promise.resolve({ signature, unreadable: 'refused' }),
    });
    await blind.sponsor.turn(true);
    t.not((await stage.progress(offer)).state, 'final');
    t.same(await booksOf(scene), []);
    const { values } = await blind.context.metrics.alerts.get();
    const told = values.find(({ labels }) => labels.reason === 'sponsored_unregistered');
    t.ok((told?.value ?? 0) > 0);
    t.same((await compare(scene)).differences, [], 'its attempt is open');
    await settle(scene);
    t.match(await booksOf(scene), [ENDED]);
  },
);
