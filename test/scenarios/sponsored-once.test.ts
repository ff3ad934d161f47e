// One sponsored transaction at a time for a wallet and an account, and what a wallet can make the
// sponsor spend without a payment.
import t from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { readOverdueRent } from '../../src/db/offers/rent-ages.ts';
import { readSponsoringFacts } from '../../src/db/offers/sponsor-budgets.ts';
import { sponsorLimits } from '../../src/domain/offers/limits.ts';
import { formatSol } from '../../src/format.ts';
import { runShared } from '../fixtures/command.ts';
import {
  type LeavingOffer,
  startSponsorScene,
  type Subscribed,
  type Verb,
} from '../fixtures/sponsor-scene.ts';
import type { OfferMade } from '../fixtures/sponsor-stage.ts';

void t.test(
  'of two transactions of a wallet for one account only one is sponsored at a time',
  async (t) => {
    const on = await startSponsorScene(t);
    const { stage } = on;
    const [a, b] = [await on.plan(), await on.plan()];
    /** Has two keepers decide about each offer at the same time, and settles what they signed. */
    const together = async (one: Subscribed, offers: readonly OfferMade[]) => {
      for (const offer of offers) await on.forces(one, offer);
      const two = [stage.sponsor().sponsor, stage.sponsor().sponsor];
      await Promise.all(two.map((keeper) => keeper.turn(true)));
      stage.net.mineBlocks(36);
      await Promise.all(two.map((keeper) => keeper.turn(true)));
      return (await Promise.all(offers.map(on.decision))).sort();
    };

    await t.test(
      'of six signed cancellations one lands, and the others are recorded without a network fee',
      async (t) => {
        const [one] = await on.subscribes(on.order(a));
        const offers: LeavingOffer[] = [];
        for (let count = 0; count < 6; count += 1) offers.push(await on.cancelling(one!));
        const others = Array<string>(5).fill('under_way');
        t.same(await together(one!, offers), ['landed', ...others]);
        t.same(await on.fees(['cancel']), { landed: 1, failed: 0 }, 'one fee');
        const told = await Promise.all(offers.map((offer) => on.told(one!, offer)));
        t.same(told.filter(({ state }) => state === 'final').length, 1);
        for (const one of told.filter(({ state }) => state !== 'final'))
          t.match(one, { state: 'unsponsored', refusal: 'under_way', cancelled: true });
        const [row] = await stage.sql`
      select cancel_requested_at is not null as cancelled, next_payment_due from subscriptions
      where id = ${one!.id}`;
        t.match(row, { cancelled: true, nextPaymentDue: null }, 'it holds here at once');
        const events = await stage.sql`
      select type from events where subscription_id = ${one!.id} and type = 'cancel_requested'`;
        t.equal(events.length, 1, 'told once');
      },
    );

    await t.test(
      'of two transactions with the same purpose, one lands and the program refuses the other',
      async (t) => {
        const [one] = await on.subscribes(on.order(a));
        const verbs: Verb[] = ['cancel', 'resume', 'approval/revoke', 'repair', 'cancel', 'close'];
        for (const [index, verb] of verbs.entries()) {
          if (verb === 'close') stage.passHours(721);
          const offers = [await on.asks(one!, verb), await on.asks(one!, verb)];
          t.same(await together(one!, offers), ['landed', 'under_way'], `${index}: ${verb}`);
          // The refusing state is taken back, so that the next step is possible.
          await stage.sql`update subscriptions set cancel_requested_at = null,
        cancel_requested_by = null where id = ${one!.id} and status = 'active'`;
        }
        t.match(await on.fees(['cancel', 'resume', 'revoke', 'repair', 'close']), { failed: 0 });
      },
    );

    await t.test(
      'a withdrawn approval blocks sponsored transactions of all accounts of the wallet',
      async (t) => {
        const first = on.order(a);
        const [one] = await on.subscribes(first);
        const [two, other] = await on.subscribes({ ...first, plan: b }, on.order(b));
        const revoked = await on.asks(one!, 'approval/revoke');
        const late = await on.cancelling(two!);
        const { sponsor } = stage.sponsor();
        await on.hands(one!, revoked);
        await sponsor.turn(true);
        t.equal(await on.decision(revoked), 'open');
        t.match(await on.cancelling(two!), {
          notSponsored: { code: 'under_way' },
          cancelled: true,
        });
        await on.hands(two!, late);
        await sponsor.turn(true);
        t.equal(await on.decision(late), 'under_way');
        t.match(await on.cancelling(other!), { sponsored: true }, 'another wallet’s is not');
        await stage.settle(sponsor);
        t.match(await on.asks(two!, 'repair'), { sponsored: true }, 'once it is final');
      },
    );

    await t.test(
      'cancellations of two accounts of a wallet are sponsored at the same time',
      async (t) => {
        const first = on.order(a);
        const [one] = await on.subscribes(first);
        const [two] = await on.subscribes({ ...first, plan: b });
        const offers = [await on.cancelling(one!), await on.cancelling(two!)];
        await on.forces(one!, offers[0]!);
        await on.forces(two!, offers[1]!);
        await stage.settle(stage.sponsor().sponsor);
        t.same(await Promise.all(offers.map(on.decision)), ['landed', 'landed']);
      },
    );

    await t.test('a cancellation that failed on chain costs one fee an hour', async (t) => {
      const first = on.order(a);
      const [one] = await on.subscribes(first);
      const [same, neighbour, other] = await on.subscribes(
        { ...first, plan: b, address: on.address() },
        on.order(a, { address: first.address }),
        on.order(a),
      );
      const [made, again, revoked, ofNeighbour, ofOther] = [
        await on.cancelling(one!),
        await on.cancelling(same!),
        await on.asks(one!, 'approval/revoke'),
        await on.cancelling(neighbour!),
        await on.cancelling(other!),
      ];
      stage.net.fund(first.wallet.address, { lamports: 1_000_000_000n });
      const { body } = await on.post<{ transaction: string }>(
        one!,
        `subscriptions/${one!.id}/cancel`,
        {},
      );
      const rival = stage.sponsor({
        async sendTransaction(bytes, options) {
          await stage.land(first.wallet, body.data.transaction);
          return stage.rpc.sendTransaction(bytes, options);
        },
      });
      await on.hands(one!, made);
      await stage.settle(rival.sponsor);
      const told = await on.told(one!, made);
      t.match(told, { state: 'failed', cancelled: false });
      t.match(await on.cancelling(same!), {
        sponsored: false,
        notSponsored: { code: 'failed_lately' },
        cancelled: true,
      });
      t.match(await on.cancelling(neighbour!), { sponsored: true }, 'a neighbour can leave');
      await on.hands(same!, again);
      await on.forces(one!, revoked);
      await on.hands(neighbour!, ofNeighbour);
      await on.hands(other!, ofOther);
      await stage.settle(stage.sponsor().sponsor);
      const decided = await Promise.all([again, revoked, ofNeighbour, ofOther].map(on.decision));
      t.same(decided, ['failed_lately', 'failed_lately', 'landed', 'landed']);
      t.match(await on.told(one!, revoked), { state: 'unsponsored', cancelled: false });
      await on.passes(1.01);
      t.match(await on.asks(one!, 'approval/revoke'), { sponsored: true }, 'an hour later');
    });
  },
);

void t.test('repeated cancelling and resuming costs the sponsor a bounded sum', async (t) => {
  const on = await startSponsorScene(t);
  const { stage, sponsor } = on;
  const [one] = await on.subscribes(on.order(await on.plan()));
  const { wallet } = one!;
  // The wallet can pay by itself, so that neither purpose waits for the other's budget.
  stage.net.fund(wallet.address, { lamports: 1_000_000_000n });
  await on.passes(25);
  const limits = { perWallet: 60_000n, leaving: 20n * 36_000n };
  stage.limit(limits);
  const before = await stage.rpc.getBalance(stage.keeper.address);
  const refused: string[] = [];
  let turns = 0;
  for (
    let verb: Verb = 'cancel';
    refused.length < 2;
    verb = verb === 'cancel' ? 'resume' : 'cancel'
  ) {
    // What the service holds is taken back: the chain alone decides which one is next.
    await stage.sql`update subscriptions set cancel_requested_at = null, cancel_requested_by = null
      where id = ${one!.id}`;
    const offer = await on.asks(one!, verb);
    turns += 1;
    if (offer.sponsored) {
      await on.hands(one!, offer);
      await stage.settle(sponsor);
      t.equal(await on.decision(offer), 'landed');
    } else {
      t.equal(offer.notSponsored?.code, 'wallet_budget', verb);
      if (!refused.includes(verb)) refused.push(verb);
      await stage.land(wallet, offer.transaction);
      stage.net.mineBlocks(2);
    }
  }
  const spent = before - (await stage.rpc.getBalance(stage.keeper.address));
  const bound = limits.perWallet + limits.leaving / 20n;
  t.ok(spent > 0n && spent <= bound, `${spent} of ${bound} lamports in ${turns} turns`);
  // docs/sponsoring.md has this figure.
  const defaults = sponsorLimits({ ...loadConfig('developer', { env: {} }), sponsorPerDay: 1 })!;
  t.equal(defaults.perWallet + defaults.leaving / 20n, 11_000_000n, 'by default 0.011 SOL a day');
});

void t.test(
  'an approval that still pays for another plan is not reported as overdue',
  async (t) => {
    const on = await startSponsorScene(t);
    const { stage, rents } = on;
    const first = on.order(await on.plan());
    const [one] = await on.subscribes(first);
    const [two] = await on.subscribes({ ...first, plan: await on.plan() });
    const facts = () => readSponsoringFacts(stage.sql);
    const ends = ({ id }: Subscribed, days: number) => stage.sql`
    update subscriptions set status = 'cancelled', cancelled_at = now() - ${days} * interval '1 day',
      ended_at = now() - ${days} * interval '1 day' where id = ${id}`;
    await ends(one!, 8);
    t.match(await facts(), {
      out: rents.authority + 2n * rents.subscription,
      overdue: rents.subscription,
    });
    await ends(two!, 6);
    t.match(await facts(), { overdue: rents.subscription }, 'it ended six days ago');
    await ends(two!, 8);
    t.match(await facts(), { overdue: rents.authority + 2n * rents.subscription });
    await ends(one!, 40);
    t.match(await readOverdueRent(stage.sql), [
      { days: 7, authorities: rents.authority, subscriptions: rents.subscription },
      { days: 30, authorities: 0n, subscriptions: rents.subscription },
      { days: 90, authorities: 0n, subscriptions: 0n },
      { days: 365, authorities: 0n, subscriptions: 0n },
    ]);
    const screen = await runShared(['status'], { DATABASE_URL: stage.databaseUrl });
    const sol = (lamports: bigint) => `${formatSol(lamports)} SOL`;
    t.match(
      screen.stdout,
      `overdue since an end: ${sol(rents.authority + rents.subscription)} for 7 to 30 days, ${sol(rents.subscription)} for 30 to 90 days`,
    );
  },
);
