// A wallet whose subscription has ended while its account on chain still runs buys again: the
// account is resumed, and only the rest of its running period is charged.
import t from 'tap';
import { timeOf, unixSeconds } from '../../src/chain/time.ts';
import { startApiStage, type ApiStage, type Buyer } from '../fixtures/api-stage.ts';
import type { Plan, Subscription } from '../fixtures/billing.ts';
import { down } from '../fixtures/cents.ts';

const HOURS = 720;
const AMOUNT = 10_000_000n;
const DAY = 24;

/** The rest of the account's running period from `from` on, in base units. */
function rest(periodStart: bigint, from: bigint): bigint {
  const length = BigInt(HOURS) * 3600n;
  return down(AMOUNT, (AMOUNT * (periodStart + length - from)) / length);
}

async function ended(stage: ApiStage, subscription: Subscription): Promise<void> {
  await stage.until('the subscription has ended', async () => {
    const { status } = await stage.row(subscription);
    return status === 'cancelled' || status === 'expired';
  });
}

/** Buys again, and returns the subscription with the chain time of the resume. */
async function buyAgain(stage: ApiStage, buyer: Buyer): Promise<Subscription & { at: bigint }> {
  const pda = await buyer.subscribe();
  const found = await stage.onChain({ pda } as Subscription);
  if (found?.expiresAt !== 0n) throw new Error('the account was not resumed');
  const registered = await buyer.register(pda);
  if (registered.status !== 201) throw new Error(JSON.stringify(registered.body));
  const { id } = registered.body.data;
  const [row] = await stage.sql<{ billedFrom: Date }[]>`
    select billed_from from subscriptions where id = ${id}`;
  const at = unixSeconds(row!.billedFrom);
  return { id, pda, wallet: buyer.keypair, plan: buyer.plan, at };
}

const trialOf = (stage: ApiStage, plan: Plan, hours: number) =>
  stage.sql`update plans set trial_hours = ${hours} where id = ${plan.id}`;

void t.test(
  'a wallet that returns on day 10 of 30 after a cancelled trial resumes and pays for 20 days',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    await trialOf(stage, plan, 7 * DAY);
    await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const first = await buyer.buy();
    stage.passHours(3 * DAY);
    await buyer.cancel(first);
    await stage.until('the cancel was seen', async () => {
      return (await stage.row(first)).cancelRequestedAt !== null;
    });
    stage.passHours(4 * DAY + 1);
    await ended(stage, first);
    stage.passHours(3 * DAY - 1);

    const account = (await stage.onChain(first))!;
    const standing = await buyer.get<{ usdcNeeded: string; schedule: { dueAt: string }[] }>(
      `plans/${plan.id}/standing`,
    );
    const shown = BigInt(standing.body.data.usdcNeeded);
    const end = timeOf(account.periodStart + BigInt(HOURS * 3600)).toISOString();
    const { schedule } = standing.body.data;
    t.match(schedule, [
      { amount: String(shown), until: end, times: 1 },
      { amount: String(AMOUNT), dueAt: end, times: null },
    ]);
    const dueAt = unixSeconds(new Date(schedule[0]?.dueAt ?? ''));
    t.equal(rest(account.periodStart, dueAt), shown, 'from the time that it names');
    const second = await buyAgain(stage, buyer);
    t.not(second.id, first.id, 'another record');
    t.equal(second.pda, first.pda, 'of the same account');
    await stage.quiet();
    const [payment, ...others] = await stage.payments(second);
    t.same(others, []);
    t.equal(payment?.amountGross, rest(account.periodStart, second.at));
    t.ok(second.at >= account.periodStart + BigInt(10 * DAY * 3600), 'from the resume on');
    t.ok(shown >= payment!.amountGross && shown - payment!.amountGross < 200n, 'as shown before');
    const row = await stage.row(second);
    t.equal(unixSeconds(row.paidThrough!), account.periodStart + BigInt(HOURS * 3600));
    t.same(await stage.payments(first), []);
    stage.passHours(20 * DAY);
    await stage.quiet();
    t.equal((await stage.payments(second))[1]?.amountGross, AMOUNT, 'the next period in full');
  },
);

void t.test(
  'a wallet that resumes a yearly plan after a failed first payment pays the rest of the year',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: 8760 });
    await stage.startKeeper();
    const buyer = await stage.buyer(plan, { usdc: 1n });
    const first = await buyer.buy();
    await stage.until('it is past due', async () => (await stage.row(first)).status === 'past_due');
    await buyer.cancel(first);
    await ended(stage, first);
    stage.net.fund(buyer.wallet, { usdc: AMOUNT });
    stage.passHours(876);
    const second = await buyAgain(stage, buyer);
    await stage.quiet();
    const payments = await stage.payments(second);
    const account = (await stage.onChain(second))!;
    const length = 8760n * 3600n;
    t.same(
      payments.map(({ amountGross }) => amountGross),
      [down(AMOUNT, (AMOUNT * (account.periodStart + length - second.at)) / length)],
    );
    t.ok(payments[0]!.amountGross <= 9_000_000n, 'a tenth of the year is over');
  },
);

void t.test(
  '/resume of an ended subscription returns a transaction or CONFLICT; the relay registers the resume',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    await trialOf(stage, plan, 7 * DAY);
    await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const first = await buyer.buy();
    await buyer.cancel(first);
    stage.passHours(7 * DAY + 1);
    await ended(stage, first);
    const ask = () => buyer.post<{ transaction: string }>(`subscriptions/${first.id}/resume`);
    await stage.sql`update plans set status = 'sunset' where id = ${plan.id}`;
    t.equal((await ask()).status, 409, 'a sunset plan takes nobody back');
    await stage.sql`update plans set status = 'active' where id = ${plan.id}`;
    const { addSignature } = await import('../../src/chain/transactions/message.ts');
    const asked = await ask();
    t.equal(asked.status, 200);
    const transaction = addSignature(buyer.keypair, asked.body.data.transaction);
    const relayed = await buyer.post<{ status: string; subscription: { id: string } | null }>(
      'transactions',
      { transaction },
    );
    t.match(relayed.body.data, { status: 'confirmed', subscription: { status: 'active' } });
    t.not(relayed.body.data.subscription?.id, first.id);
    t.equal((await ask()).status, 409, 'a newer record of the account is live');
    await stage.quiet();

    const again = { ...first, id: relayed.body.data.subscription!.id };
    await buyer.cancel(again);
    stage.passHours(31 * DAY);
    await ended(stage, again);
    t.match(await ask(), { status: 409, body: { error: { message: /subscribe again/ } } });
  },
);

void t.test(
  'a period that was pulled is not pulled again after a resume, and gives no access once refunded',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    await stage.startKeeper();
    const seller = await stage.seller(plan);
    for (const isRefunded of [false, true]) {
      const buyer = await stage.buyer(plan);
      const first = await buyer.buy();
      await stage.quiet();
      await buyer.cancel(first);
      await stage.until('the cancel was seen', async () => {
        return (await stage.row(first)).cancelRequestedAt !== null;
      });
      if (isRefunded)
        await stage.sql`update payments set amount_refunded = amount_net where subscription_id = ${first.id}`;
      // The record has ended, by whatever reason, and the account runs on.
      await stage.sql`
        with ended as (
          update subscriptions set status = 'expired', ended_at = now(), end_reason = 'past_due'
          where id = ${first.id} returning id
        )
        update subscription_work set due_at = null, lease_until = null, claim_id = null
        from ended where subscription_id = id`;
      stage.passHours(DAY);
      const second = await buyAgain(stage, buyer);
      await stage.quiet();
      t.same(await stage.payments(second), [], 'nothing is collected');
      const account = (await stage.onChain(second))!;
      const end = new Date(Number(account.periodStart + BigInt(HOURS * 3600)) * 1000);
      const shown = await buyer.get(`subscriptions/${second.id}`);
      t.match(shown.body.data, {
        status: 'active',
        paidThrough: end.toISOString(),
        nextPaymentDue: end.toISOString(),
      });
      t.equal(shown.body.data.accessUntil === null, isRefunded);
      const access = await stage.api.call(
        'GET',
        `/merchant/apps/${plan.appId}/access?wallet=${buyer.wallet}`,
        { token: seller.token },
      );
      t.match(access.body.data, isRefunded ? { hasAccess: false } : { hasAccess: true });
      stage.passHours(30 * DAY);
      await stage.quiet();
      t.equal((await stage.payments(second)).length, 1, 'the next period is paid');
      const later = await buyer.get(`subscriptions/${second.id}`);
      t.not(later.body.data.accessUntil, null);
    }
  },
);

void t.test(
  'a subscription that is cancelled, refunded and resumed has no access in the refunded period',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    await stage.startKeeper();
    const buyer = await stage.buyer(plan);
    const bought = await buyer.buy();
    await stage.quiet();
    await buyer.cancel(bought);
    await stage.until('the cancel was seen', async () => {
      return (await stage.row(bought)).cancelRequestedAt !== null;
    });
    const shown = () => buyer.get<{ accessUntil: string | null }>(`subscriptions/${bought.id}`);
    await stage.sql`update payments set amount_refunded = amount_net where subscription_id = ${bought.id}`;
    t.not((await shown()).body.data.accessUntil, null, 'a refund alone takes nothing back');
    const asked = await buyer.post<{ transaction: string }>(`subscriptions/${bought.id}/resume`);
    await stage.land(buyer.keypair, asked.body.data.transaction);
    await stage.until('the resume was seen', async () => {
      return (await stage.row(bought)).cancelRequestedAt === null;
    });
    t.equal((await shown()).body.data.accessUntil, null);
    const resumed = (await stage.events(bought)).at(-1);
    t.match(resumed, { type: 'subscription_resumed', data: { accessUntil: null } });
    stage.passHours(31 * DAY);
    await stage.quiet();
    t.not((await shown()).body.data.accessUntil, null, 'the next period is paid');
  },
);

void t.test(
  'an account that was opened long before is charged from its registration on',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    await stage.startKeeper();
    const own = await stage.buyer(plan);
    const pda = await stage.open(plan, own.keypair);
    const offered = await stage.buyer(plan);
    const offeredPda = await offered.subscribe();
    stage.passHours(15 * DAY);
    const paid = async (buyer: Buyer, address: string) => {
      const { id } = (await buyer.register(address)).body.data;
      await stage.quiet();
      return (await stage.payments({ id } as Subscription)).map(({ amountGross }) => amountGross);
    };
    const [late] = await paid(own, pda);
    t.ok(late! <= AMOUNT / 2n && late! > AMOUNT / 2n - 11_000n, `half of it: ${late}`);
    const prompt = await stage.buyer(plan);
    t.same(await paid(prompt, await stage.open(plan, prompt.keypair)), [AMOUNT], 'at once');
    const [lateOffer] = await paid(offered, offeredPda);
    t.ok(lateOffer! <= AMOUNT / 2n, `offered by the service, first tried after half: ${lateOffer}`);
    t.ok(lateOffer! >= AMOUNT / 2n - 10_000n, 'the half that is left');
  },
);

void t.test(
  'after a reinstated forced cancellation a new registration is not charged for the paid period again',
  async (t) => {
    const stage = await startApiStage(t);
    const plan = await stage.plan({ amount: AMOUNT, periodHours: HOURS });
    await stage.startKeeper();
    const seller = await stage.seller(plan);
    const buyer = await stage.buyer(plan);
    const first = await buyer.buy();
    await stage.quiet();
    const act = (verb: string, body?: object) =>
      stage.api.call('POST', `/merchant/apps/${plan.appId}/subscriptions/${first.id}/${verb}`, {
        token: seller.token,
        body,
      });
    await act('cancel', { mode: 'force' });
    t.equal((await buyer.register(first.pda)).status, 409);
    await act('reinstate');
    stage.passHours(5 * DAY);
    const { id } = (await buyer.register(first.pda)).body.data;
    await stage.quiet();
    const second = { ...first, id };
    t.same(await stage.payments(second), []);
    t.equal((await stage.payments(first)).length, 1);
    t.match(await stage.row(second), {
      status: 'active',
      paidThrough: (await stage.row(first)).paidThrough,
    });
    stage.passHours(26 * DAY);
    await stage.quiet();
    t.equal((await stage.payments(second))[0]?.amountGross, AMOUNT);
  },
);
