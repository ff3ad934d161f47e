// The bounds of sponsoring, each through offers of the API and turns of a keeper: where it begins,
// that both of them keep to it, and whom it leaves alone.
import t from 'tap';
import type { Plan } from '../fixtures/billing.ts';
import {
  type Order,
  plentiful,
  type SponsorScene,
  startSponsorScene,
} from '../fixtures/sponsor-scene.ts';
import type { OfferMade } from '../fixtures/sponsor-stage.ts';

/** Orders of which `first` uses the budget, `next` and `later` too, and `other` does not. */
interface Orders {
  first: Order;
  next: Order;
  later: Order;
  other: Order | undefined;
}

const budgets: {
  limit: 'perDay' | 'perMerchant' | 'perWallet' | 'perAddress' | 'merchantOut';
  refusal: string;
  orders: (scene: SponsorScene, plans: readonly [Plan, Plan, Plan]) => Orders;
}[] = [
  {
    limit: 'perDay',
    refusal: 'budget',
    orders: ({ order }, [a, b, c]) => ({
      first: order(a),
      next: order(b),
      later: order(c),
      other: undefined,
    }),
  },
  {
    limit: 'perMerchant',
    refusal: 'merchant_budget',
    orders: ({ order }, [a, b]) => ({
      first: order(a),
      next: order(a),
      later: order(a),
      other: order(b),
    }),
  },
  {
    limit: 'perWallet',
    refusal: 'wallet_budget',
    orders({ order, address }, [a, b, c]) {
      const first = order(a);
      const next = { ...first, plan: b, address: address() };
      return { first, next, later: { ...first, plan: c }, other: order(b) };
    },
  },
  {
    limit: 'perAddress',
    refusal: 'address_budget',
    orders({ order }, [a, b, c]) {
      const first = order(a);
      const { address } = first;
      return {
        first,
        next: order(b, { address }),
        later: order(c, { address }),
        other: order(b),
      };
    },
  },
  {
    limit: 'merchantOut',
    refusal: 'merchant_budget',
    orders: ({ order }, [a, b]) => ({
      first: order(a),
      next: order(a),
      later: order(a),
      other: order(b),
    }),
  },
];

void t.test('each budget of sign-ups is enforced by the API and by keepers', async (t) => {
  const on = await startSponsorScene(t);
  const { stage, sponsor, rents, offer, decided, decision, refusal } = on;
  const shared = [await on.plan(), await on.plan(), await on.plan()] as const;
  for (const { limit, refusal: why, orders } of budgets)
    await t.test(
      `a sign-up is sponsored up to the end of the budget ${limit}, and refused beyond it`,
      async (t) => {
        await on.passes(25);
        stage.limit(plentiful);
        const lasts = limit === 'merchantOut';
        const plans = lasts ? ([await on.plan(), await on.plan(), shared[2]] as const) : shared;
        const { first, next, later, other } = orders(on, plans);
        const isSame = next.wallet === first.wallet;
        const [made, early] = [await offer(first), await offer(next)];
        const rent = rents.subscription + (isSame ? 0n : rents.authority);
        const all = rents.authority + rents.subscription;
        const cost = async (of: OfferMade) => (lasts ? 0n : on.fee(of));

        // The first one is committed and not yet final: it counts with all that it can cost.
        await stage.sign(made, first.wallet);
        await sponsor.turn(true);
        t.equal(await decision(made), 'open');
        stage.limit({ [limit]: all + rent });
        t.equal(await refusal(next), isSame ? 'under_way' : why);
        t.equal(await decided(next, early), isSame ? 'under_way' : why);
        t.equal(await decision(made), 'landed');

        stage.limit(plentiful);
        const [late, exact] = [await offer(next), await offer(next)];
        const spared = other && (await offer(other));
        const bound = all + (await cost(made)) + rent + (await cost(exact));
        stage.limit({ [limit]: bound - 1n });
        t.equal(await refusal(next), why, 'the API makes no offer');
        t.equal(await decided(next, late), why, 'a keeper signs none that was made before');
        if (other !== undefined) {
          t.equal(await refusal(other), undefined, 'others are offered one');
          t.equal(await decided(other, spared!), 'landed');
        }
        stage.limit({ [limit]: bound });
        t.equal(await decided(next, exact), 'landed', 'up to its end');
        t.equal(await refusal(later), why);
        await on.passes(23);
        t.equal(await refusal(later), why, '23 hours later');
        await on.passes(2);
        t.equal(await refusal(later), lasts ? why : undefined, '25 hours later');
      },
    );

  await t.test(
    'rent that was returned no longer counts against the merchant’s limit',
    async (t) => {
      stage.limit({ ...plentiful });
      const plan = await on.plan();
      const [one] = await on.subscribes(on.order(plan));
      stage.limit({ merchantOut: rents.authority + rents.subscription });
      const next = on.order(plan, { wallet: one!.wallet });
      t.equal(await refusal(on.order(plan)), 'merchant_budget');
      const made = await on.cancelling(one!);
      await on.hands(one!, made);
      await stage.settle(sponsor);
      stage.passHours(721);
      // The wallet's next account takes the place of the one that is closed.
      t.equal(await refusal(next), 'merchant_budget', 'closed, and opened again: it may not');
      await stage.sql`update sponsorships set subscription_returned_at = now()
      where wallet = ${one!.wallet.address} and subscription_rent > 0`;
      t.equal(await refusal(on.order(plan)), 'merchant_budget', 'its authority is still out');
      t.equal(await refusal(next), undefined, 'which the wallet need not open again');
    },
  );
});

void t.test(
  'the reserve for sponsored cancellations is separate from other budgets and shared by wallets',
  async (t) => {
    const on = await startSponsorScene(t);
    const { stage } = on;
    const [a, b] = [await on.plan(), await on.plan()];
    await t.test(
      'cancellations are sponsored even when every budget for sign-ups is used up',
      async (t) => {
        stage.limit(plentiful);
        const [one] = await on.subscribes(on.order(a));
        stage.limit({
          perDay: 0n,
          perMerchant: 0n,
          perWallet: 0n,
          perAddress: 0n,
          merchantOut: 0n,
        });
        const made = await on.cancelling(one!);
        t.equal(made.sponsored, true);
        t.same(await on.leave({ one: one!, made }), ['landed']);
        stage.limit({ ...plentiful, leaving: 0n });
        t.equal(await on.refusal(on.order(a)), undefined, 'nor they on it');
      },
    );

    await t.test(
      'one wallet may use a twentieth of the reserve for sponsored cancellations',
      async (t) => {
        await on.passes(25);
        stage.limit(plentiful);
        const first = on.order(a);
        const [one] = await on.subscribes(first);
        const [same, other] = await on.subscribes(
          { ...first, plan: b, address: on.address() },
          on.order(b),
        );
        const [made, late, exact, spared] = [
          await on.cancelling(one!),
          await on.cancelling(same!),
          await on.cancelling(same!),
          await on.cancelling(other!),
        ];
        t.same(await on.leave({ one: one!, made }), ['landed']);
        const bound = ((await on.usedForLeaving()) + (await on.fee(exact))) * 20n;
        stage.limit({ leaving: bound - 20n });
        t.match(await on.cancelling(same!), { notSponsored: { code: 'wallet_budget' } });
        t.same(await on.leave({ one: same!, made: late }, { one: other!, made: spared }), [
          'wallet_budget',
          'landed',
        ]);
        stage.limit({ leaving: bound });
        t.same(await on.leave({ one: same!, made: exact }), ['landed']);
      },
    );
  },
);

void t.test('sponsoring leaves a minimum balance for renewals', async (t) => {
  const on = await startSponsorScene(t);
  const { stage, sponsor, rents } = on;
  const plan = await on.plan();
  const holds = async (lamports: bigint) => {
    await stage.net.rpc('surfnet_setAccount', stage.keeper.address, {
      lamports: Number(lamports),
    });
    stage.net.mineBlocks(2);
  };
  const rent = rents.authority + rents.subscription;

  await t.test(
    'the floor of SPONSOR_FLOOR_LAMPORTS counts lamports of open transactions',
    async (t) => {
      stage.limit({ ...plentiful, floor: 50_000_000n });
      const [first, next] = [on.order(plan), on.order(plan)];
      const [made, late, exact] = [
        await on.offer(first),
        await on.offer(next),
        await on.offer(next),
      ];
      const cost = rent + (await on.fee(exact));
      // Sent to nobody: its lamports are still the sponsor's, and reserved.
      const deaf = stage.sponsor({ sendTransaction: () => Promise.resolve('') });
      await stage.sign(made, first.wallet);
      await deaf.sponsor.turn(true);
      await stage.sql`update sponsorships set lease_until = now() + interval '1 hour'`;
      const [{ reserved }] = await stage.sql<[{ reserved: bigint }]>`
      select reserved from sponsorships where state = 'open'`;
      await holds(50_000_000n + reserved + cost - 1n);
      t.equal(await on.refusal(next), 'low_balance');
      t.equal(await on.decided(next, late), 'low_balance');
      await holds(50_000_000n + reserved + cost);
      t.equal(await on.decided(next, exact), 'landed', 'down to the floor');
      await stage.orphan();
      await stage.settle(stage.sponsor().sponsor);
      t.equal(await on.decision(made), 'landed');
    },
  );

  await t.test('the default floor is the cost of last week’s transactions', async (t) => {
    stage.limit({ ...plentiful, floor: undefined });
    await stage.sql`insert into transactions (signature, state, blockhash_slot, last_valid_block_height, created_at)
      select sha512(n::text::bytea), 'landed', 1, 1, now() - interval '6 days'
      from generate_series(1, 1000) as n`;
    const [{ count }] = await stage.sql<[{ count: bigint }]>`select count(*) from transactions`;
    const floor = count * 10_000n;
    t.ok(floor > 5_000_000n);
    const next = on.order(plan);
    const [late, exact] = [await on.offer(next), await on.offer(next)];
    await holds(floor + rent + (await on.fee(late)) - 1n);
    t.equal(await on.decided(next, late), 'low_balance');
    await holds(floor + rent + (await on.fee(exact)));
    t.equal(await on.decided(next, exact), 'landed');
  });

  await t.test(
    'sponsored cancellations may spend below the minimum balance, down to the cost of one payment batch',
    async (t) => {
      await holds(1_000_000_000n);
      stage.limit(plentiful);
      const [one] = await on.subscribes(on.order(plan));
      const [late, exact] = [await on.cancelling(one!), await on.cancelling(one!)];
      stage.limit({ floor: 900_000_000n });
      await holds(5_000_000n + (await on.fee(late)) - 1n);
      t.match(await on.cancelling(one!), {
        notSponsored: { code: 'low_balance' },
        cancelled: true,
      });
      await on.hands(one!, late);
      await stage.settle(sponsor);
      t.equal(await on.decision(late), 'low_balance');
      await holds(5_000_000n + (await on.fee(exact)));
      await on.hands(one!, exact);
      await stage.settle(sponsor);
      t.equal(await on.decision(exact), 'landed');
    },
  );
});

/** Two keepers decide at the same time about several offers of one wallet. */
async function race({ stage, forces }: SponsorScene, one: Order, offers: readonly OfferMade[]) {
  for (const offer of offers) await forces(one, offer);
  const two = [stage.sponsor().sponsor, stage.sponsor().sponsor];
  await Promise.all(two.map((sponsor) => sponsor.turn(true)));
  return two;
}

void t.test('a wallet’s concurrent, repeated and failed sign-ups are limited', async (t) => {
  const on = await startSponsorScene(t);
  const { stage } = on;
  const [a, b] = [await on.plan(), await on.plan()];

  await t.test('a wallet has at most one sign-up under way', async (t) => {
    const one = on.order(a);
    const offers = [await on.offer(one), await on.offer({ ...one, plan: b })];
    const two = await race(on, one, offers);
    const found = await Promise.all(offers.map(on.decision));
    t.same(new Set(found), new Set(['open', 'under_way']));
    const lost = { ...one, plan: found[0] === 'open' ? b : a };
    t.equal(await on.refusal(lost), 'under_way');
    stage.net.mineBlocks(36);
    await Promise.all(two.map((keeper) => keeper.turn(true)));
    t.equal(await on.decided(lost, await on.offer(lost)), 'landed', 'once it is final');
  });

  await t.test('a wallet has at most one open sponsored account per plan', async (t) => {
    const one = on.order(a);
    const offers = [await on.offer(one), await on.offer(one), await on.offer(one)];
    const two = await race(on, one, offers.slice(0, 2));
    const found = await Promise.all(offers.slice(0, 2).map(on.decision));
    t.same(new Set(found), new Set(['open', 'under_way']));
    stage.net.mineBlocks(36);
    await Promise.all(two.map((keeper) => keeper.turn(true)));
    t.equal(await on.decided(one, offers[2]!), 'running');
    t.equal(await on.refusal(one), 'running');
    t.equal(await on.refusal({ ...one, plan: b }), undefined);
  });

  await t.test(
    'after a failed sign-up its wallet and address get no other for an hour',
    async (t) => {
      const one = on.order(a);
      const [wallet, neighbour, stranger] = [
        { ...one, address: on.address() },
        on.order(a, { address: one.address }),
        on.order(a),
      ];
      const [made, ofWallet, ofNeighbour, ofStranger] = [
        await on.offer(one),
        await on.offer(wallet),
        await on.offer(neighbour),
        await on.offer(stranger),
      ];
      const draining = stage.sponsor({
        async sendTransaction(bytes, options) {
          await stage.net.rpc('surfnet_setTokenAccount', one.wallet.address, stage.net.mint, {
            amount: 0,
          });
          return stage.rpc.sendTransaction(bytes, options);
        },
      });
      await stage.sign(made, one.wallet);
      await stage.settle(draining.sponsor);
      const [failed] =
        await stage.sql`select state from sponsorships where offer_id = ${made.offerId}`;
      t.match(failed, { state: 'failed' });
      stage.net.fund(one.wallet.address, { usdc: 5_000_000n });
      stage.net.mineBlocks(2);
      for (const order of [wallet, neighbour]) t.equal(await on.refusal(order), 'failed_lately');
      t.equal(await on.refusal(stranger), undefined);
      t.equal(await on.decided(wallet, ofWallet), 'failed_lately');
      t.equal(await on.decided(neighbour, ofNeighbour), 'failed_lately');
      t.equal(await on.decided(stranger, ofStranger), 'landed');
      await on.passes(59 / 60);
      for (const order of [wallet, neighbour]) t.equal(await on.refusal(order), 'failed_lately');
      await on.passes(2 / 60);
      for (const order of [wallet, neighbour]) t.equal(await on.refusal(order), undefined);
    },
  );
});
