// What wallets do in a random walk: buying, changing the plan, cancelling, resuming, registering.
// What a preview showed is compared with what was charged.
import { subscriptionAddress } from '../../src/chain/program/addresses.ts';
import { unixSeconds } from '../../src/chain/time.ts';
import { creditOf } from '../../src/db/invoices/credits.ts';
import type { Plan } from '../fixtures/billing.ts';
import {
  asks,
  byMerchant,
  byWallet,
  fund,
  handedOver,
  landed,
  relayed,
  type Said,
  settle,
  told,
  type Walk,
  type Walker,
} from './party.ts';

interface Offer {
  transaction: string;
  offerId: string;
  subscriptionPda: string;
  sponsored: boolean;
}

interface Amounts {
  asOf: string;
  today: string;
  credit: string;
  startsAt: string | null;
}

interface Standing {
  onChain: 'none' | 'live' | 'cancelled' | 'ended';
  signingUp: boolean;
  usdcNeeded: string;
  trialHours: number | null;
}

/** A registration of a wallet, as the walk chooses from them. */
export interface Own {
  id: string;
  planId: string;
  pda: string;
  status: string;
  replacedBy: string | null;
  cancelRequestedAt: Date | null;
  cancelRequestedBy: string | null;
  endReason: string | null;
  pausedAt: Date | null;
}

/** The terms that a wallet was shown before it signed. */
interface Shown {
  what: string;
  pda: string;
  today: bigint;
  /** Chain time of the amounts, Unix seconds. */
  asOf: number;
  isExact: boolean;
  /** Whether another offer fits too: then the wallet may also pay less. */
  isAmbiguous?: boolean;
}

const pdaOf = ({ stage: { net } }: Walk, { keypair }: Walker, { pda }: Plan) =>
  subscriptionAddress(net.programId, pda, keypair.address).address;

/** The wallet's registrations, newest first. */
export const ownOf = ({ stage }: Walk, { keypair }: Walker): Promise<Own[]> => stage.sql<Own[]>`
  select id, plan_id, subscription_pda as pda, status, replaced_by, cancel_requested_at,
    cancel_requested_by, end_reason, paused_at
  from subscriptions where subscriber_wallet = ${keypair.address} order by id desc`;

export const isLive = ({ status, replacedBy }: Own) =>
  (status === 'active' || status === 'past_due') && replacedBy === null;

/**
 * Compares what was shown with what the newest registration of the address has paid, once nothing
 * is under way. A payment that lands some seconds later costs these seconds less or more.
 */
async function compare(walk: Walk, shown: Shown): Promise<void> {
  const { what, pda, today, asOf, isExact, isAmbiguous = false } = shown;
  const { stage, story, breaches } = walk;
  if (walk.keeper === undefined) return;
  await settle(walk);
  const [paid] = await stage.sql<{ id: string; cash: bigint; state: string }[]>`
    select s.id, coalesce((
        select sum(amount_gross) from payments
        where subscription_id = s.id and status = 'succeeded' and not further), 0)::int8 as cash,
      concat_ws(' ', s.status, 'credit', ${creditOf(stage.sql)}, 'trial to', s.trial_ends_at, 'starts',
        s.starts_at, 'due', w.due_at, 'paid through', w.paid_through,
        'paused', s.paused_at) as state
    from subscriptions s join subscription_work w on w.subscription_id = s.id
    where subscription_pda = ${pda} and replaced_by is null
      and status in ('active', 'past_due') order by id desc limit 1`;
  if (paid === undefined) return;
  const seconds = BigInt(Math.max(0, stage.now() - asOf));
  // The dearest plan by the second is 25 USDC for 720 hours.
  const slack = isExact ? 0n : 2n + (seconds * 2n * 25_000_000n) / (720n * 3600n);
  if (paid.cash <= today + slack && (isAmbiguous || paid.cash >= today - slack)) return;
  breaches.push(
    `shownIsPaid: ${what} showed ${today}, ${paid.cash} was charged by ${paid.id} (step ${story.length}): ${paid.state}`,
  );
}

/** A checkout session with a discount or a trial of its own, for one wallet or for any. */
async function sessionFor(walk: Walk, walker: Walker, plan: Plan): Promise<string | undefined> {
  const { random } = walk;
  const kind = random.below(3);
  const { status, body } = await byMerchant<{ id: string }>(walk, 'POST', '/checkout-sessions', {
    planId: plan.id,
    ...(kind !== 1 && { discount: { percentOff: 50, periods: 1 + random.below(2) } }),
    ...(kind !== 0 && { trialHours: 24 * (1 + random.below(5)) }),
    ...(random.below(2) === 0 && { subscriberWallet: walker.keypair.address }),
  });
  return status === 201 ? body.data.id : undefined;
}

/** The wallet buys a plan, with or without a session, trial, sponsor; the page stays or is gone. */
export async function buy(walk: Walk, walker: Walker): Promise<Said> {
  const { random, plans, stage } = walk;
  if ((await ownOf(walk, walker)).some(isLive) && random.below(4) > 0) return undefined;
  const plan = random.pick(plans);
  const checkoutSessionId =
    random.below(2) === 0 ? await sessionFor(walk, walker, plan) : undefined;
  const sponsored = random.below(3) === 0;
  const way = random.below(3);
  fund(walk, walker.keypair);
  const query = checkoutSessionId === undefined ? '' : `?checkoutSessionId=${checkoutSessionId}`;
  const asOf = stage.now();
  const standing = await byWallet<Standing>(
    walk,
    walker,
    'GET',
    `plans/${plan.id}/standing${query}`,
  );
  const pda = pdaOf(walk, walker, plan);
  const about = `${plan.terms.amount} for ${plan.terms.periodHours} h${query && ' in a session'}`;
  const { onChain, usdcNeeded, signingUp } = standing.body.data;
  const shown = { what: `buying ${about}`, pda, today: BigInt(usdcNeeded), asOf, isExact: false };
  if (signingUp) return `buys ${about}: signs up`;
  if (onChain === 'live')
    return `has an account: ${await register(walk, walker, plan, checkoutSessionId)}`;
  await asks(walk, pda);
  const body = { ...(checkoutSessionId !== undefined && { checkoutSessionId }), sponsored };
  const asked = await byWallet<Offer>(walk, walker, 'POST', `plans/${plan.id}/subscribe`, body);
  if (asked.status !== 200) return `buys ${about}: ${told(asked)}`;
  const offer = asked.body.data;
  const end = offer.sponsored
    ? `sponsored, ${await handedOver(walk, walker, offer)}`
    : way === 0
      ? `by the relay, ${await relayed(walk, walker, offer)}`
      : await landed(walk, walker, offer);
  // The page is gone where the wallet neither used the relay nor registers.
  if (!offer.sponsored && way === 1) await register(walk, walker, plan, checkoutSessionId);
  await awaitSeen(walk, pda, end);
  await compare(walk, { ...shown, isExact: offer.sponsored });
  return `buys ${about}: ${end}`;
}

/**
 * Waits until a keeper has registered or listed an account that was opened, and has seen that the
 * account's earlier registration, which the wallet had cancelled, is over.
 */
async function awaitSeen(walk: Walk, pda: string, end: string): Promise<void> {
  const { stage } = walk;
  if (walk.keeper === undefined || !end.endsWith('confirmed')) return;
  await stage.until(`the account ${pda} is registered or listed`, async () => {
    stage.net.mineBlocks();
    const seen = await stage.sql`
      select 1 from subscriptions where subscription_pda = ${pda}
        and status in ('active', 'past_due')
        and cancel_requested_by is distinct from 'subscriber'
      union all select 1 from unregistered_subscriptions where subscription_pda = ${pda}`;
    return seen.length > 0;
  });
}

/** The wallet registers its account itself. */
async function register(
  walk: Walk,
  walker: Walker,
  plan: Plan,
  checkoutSessionId?: string,
): Promise<string> {
  const subscriptionPda = pdaOf(walk, walker, plan);
  await asks(walk, subscriptionPda);
  return told(
    await byWallet(walk, walker, 'POST', 'subscriptions', {
      ...{ appId: walk.appId, planId: plan.id, subscriptionPda },
      ...(checkoutSessionId !== undefined && { checkoutSessionId }),
    }),
  );
}

/** The wallet registers a live account of its own that has no live registration. */
export async function registerOwn(walk: Walk, walker: Walker): Promise<Said> {
  const { stage, plans } = walk;
  const known = new Set((await ownOf(walk, walker)).filter(isLive).map(({ pda }) => pda));
  for (const plan of plans) {
    const pda = pdaOf(walk, walker, plan);
    const account = await stage.onChain({ id: '', pda, wallet: walker.keypair, plan });
    if (known.has(pda) || account?.expiresAt !== 0n) continue;
    return `registers its account of ${plan.terms.amount}: ${await register(walk, walker, plan)}`;
  }
  return undefined;
}

/** The wallet opens an account with a client of its own. */
export async function openOutside(walk: Walk, walker: Walker): Promise<Said> {
  const { stage, random, plans } = walk;
  const plan = random.pick(plans);
  const pda = pdaOf(walk, walker, plan);
  const subscription = { id: '', pda, wallet: walker.keypair, plan };
  if ((await stage.onChain(subscription)) !== null) return undefined;
  fund(walk, walker.keypair);
  await stage.open(plan, walker.keypair);
  await awaitSeen(walk, pda, 'confirmed');
  return `opens ${plan.terms.amount} without the service`;
}

/** The wallet changes its plan; it may ask for the other kind of change too, and not sign that. */
export async function change(walk: Walk, walker: Walker): Promise<Said> {
  const { random, plans } = walk;
  const old = (await ownOf(walk, walker)).find(isLive);
  if (old === undefined) return undefined;
  const to = random.pick(plans.filter(({ id }) => id !== old.planId));
  const when = random.pick(['now', 'now', 'period_end'] as const);
  const sponsored = random.below(3) === 0;
  const [way, declines] = [random.below(3), random.below(4) === 0];
  fund(walk, walker.keypair);
  const path = `subscriptions/${old.id}/change`;
  const about = `changes to ${to.terms.amount} for ${to.terms.periodHours} h ${when}`;
  const pda = pdaOf(walk, walker, to);
  await asks(walk, pda);
  const paidBefore = await paymentsOf(walk, old);
  const asked = await byWallet<Offer & Amounts>(walk, walker, 'POST', path, {
    ...{ planId: to.id, when, sponsored },
  });
  if (asked.status !== 200) return `${about}: ${told(asked)}`;
  const offer = asked.body.data;
  const { today, asOf, startsAt } = offer;
  const other = declines
    ? await byWallet<Offer>(walk, walker, 'POST', path, {
        ...{ planId: to.id, when: when === 'now' ? 'period_end' : 'now' },
      })
    : undefined;
  const end = offer.sponsored
    ? `sponsored, ${await handedOver(walk, walker, offer)}`
    : way === 0
      ? `by the relay, ${await relayed(walk, walker, offer)}`
      : await landed(walk, walker, offer);
  if (!offer.sponsored && way === 1) await register(walk, walker, to);
  if (/confirmed$|landed$/.test(end)) {
    if (!offer.sponsored) await awaitSeen(walk, pda, 'confirmed');
    const seconds = unixSeconds(new Date(asOf));
    // A payment of the old subscription in between changes what the change costs.
    if ((await paymentsOf(walk, old)) === paidBefore) {
      // Two kinds of change within one block are one transaction; only the relay says for which of
      // the offers the wallet signed it.
      const isAmbiguous =
        way !== 0 && other?.status === 200 && other.body.data.transaction === offer.transaction;
      await compare(walk, {
        what: `${about}${declines ? ' (asked for the other too)' : ''}`,
        ...{ pda, today: BigInt(today), asOf: Number(seconds) },
        ...{ isExact: offer.sponsored, isAmbiguous },
      });
      if (!isAmbiguous) await compareStart(walk, { pda, startsAt, what: about });
    }
  }
  return `${about}${declines ? ', asked for the other too' : ''}: ${end}, shown ${today}`;
}

/** Number of the subscription's payments that succeeded. */
async function paymentsOf({ stage: { sql } }: Walk, { id }: Own): Promise<number> {
  const [{ count }] = await sql<[{ count: number }]>`
    select count(*)::int as count from payments
    where subscription_id = ${id} and status = 'succeeded'`;
  return count;
}

/** Compares the time to which a change defers the first payment with what was shown. */
async function compareStart(
  { stage, breaches, story }: Walk,
  { pda, startsAt, what }: { pda: string; startsAt: string | null; what: string },
): Promise<void> {
  const [row] = await stage.sql<{ startsAt: Date | null }[]>`
    select starts_at from subscriptions where subscription_pda = ${pda} and replaced_by is null
      and status in ('active', 'past_due') order by id desc limit 1`;
  if (row === undefined || (row.startsAt?.toISOString() ?? null) === startsAt) return;
  const is = row.startsAt?.toISOString();
  breaches.push(
    `shownIsPaid: ${what} showed startsAt ${startsAt}, it is ${is} (step ${story.length})`,
  );
}

/** The wallet cancels: on chain, sponsored, or here, where it has no SOL. */
export async function cancel(walk: Walk, walker: Walker): Promise<Said> {
  const { random, stage } = walk;
  const own = (await ownOf(walk, walker)).find(
    (one) => isLive(one) && one.cancelRequestedBy !== 'subscriber',
  );
  if (own === undefined) return undefined;
  const path = `subscriptions/${own.id}/cancel`;
  const kind = random.below(4);
  if (kind === 0) {
    await stage.net.rpc('surfnet_setAccount', walker.keypair.address, { lamports: 0 });
    stage.net.mineBlocks(2);
    const answer = await byWallet(walk, walker, 'POST', path, {});
    fund(walk, walker.keypair);
    return `cancels without SOL: ${told(answer)}, here ${/"cancelled":true/.test(answer.text)}`;
  }
  const asked = await byWallet<Offer>(walk, walker, 'POST', path, { sponsored: kind === 1 });
  if (asked.status !== 200) return `cancels: ${told(asked)}`;
  const offer = asked.body.data;
  if (offer.sponsored) return `cancels, sponsored: ${await handedOver(walk, walker, offer)}`;
  return kind === 2
    ? `cancels by the relay: ${await relayed(walk, walker, offer)}`
    : `cancels: ${await landed(walk, walker, offer)}`;
}

/** The wallet resumes a cancelled or an ended subscription. */
export async function resume(walk: Walk, walker: Walker): Promise<Said> {
  const { random } = walk;
  const all = (await ownOf(walk, walker)).filter((one) => one.cancelRequestedAt !== null);
  if (all.length === 0) return undefined;
  const own = all[random.below(Math.min(2, all.length))]!;
  const isEnded = own.status === 'cancelled' || own.status === 'expired';
  const way = random.below(2);
  // For an ended subscription, the transaction is an offer to subscribe.
  if (isEnded || way === 0) await asks(walk, own.pda);
  const asked = await byWallet<Offer>(walk, walker, 'POST', `subscriptions/${own.id}/resume`, {});
  const about = `resumes ${isEnded ? 'an ended one' : 'a cancelled one'}`;
  if (asked.status !== 200) return `${about}: ${told(asked)}`;
  const end =
    way === 0
      ? await relayed(walk, walker, asked.body.data)
      : await landed(walk, walker, asked.body.data);
  return `${about}${way === 0 ? ' by the relay' : ''}: ${end}`;
}

/** The wallet closes the account of an ended subscription. */
export async function close(walk: Walk, walker: Walker): Promise<Said> {
  const own = (await ownOf(walk, walker)).find((one) => one.status === 'cancelled');
  if (own === undefined) return undefined;
  const asked = await byWallet<Offer>(walk, walker, 'POST', `subscriptions/${own.id}/close`, {});
  if (asked.status !== 200) return `closes: ${told(asked)}`;
  return `closes: ${await landed(walk, walker, asked.body.data)}`;
}

/** The wallet spends its USDC elsewhere, or gets some. */
export async function spend(walk: Walk, walker: Walker): Promise<Said> {
  const { keypair } = walker;
  const { stage, random } = walk;
  if (!(await ownOf(walk, walker)).some(isLive)) return undefined;
  if (random.below(2) === 0) {
    fund(walk, keypair);
    return 'is topped up';
  }
  await stage.net.rpc('surfnet_setTokenAccount', keypair.address, stage.net.mint, { amount: 1 });
  stage.net.mineBlocks(2);
  return 'spends its USDC';
}
