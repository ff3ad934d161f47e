// What the merchant, its plan's owner and the operator do in a random walk.
import { transferSubscription } from '../../src/chain/program/instructions.ts';
import { addSignature } from '../../src/chain/transactions/message.ts';
import { isLive, ownOf } from './buying.ts';
import {
  byMerchant,
  pass,
  type Said,
  startKeeper,
  stopKeeper,
  told,
  type Walk,
  type Walker,
  whileMining,
} from './party.ts';

/** Cancels at the end of the period, or by force. */
export async function cancelFor(walk: Walk, walker: Walker): Promise<Said> {
  const own = (await ownOf(walk, walker)).filter(
    ({ status }) => status === 'active' || status === 'past_due',
  );
  if (own.length === 0) return undefined;
  // Sometimes one that a change has replaced.
  const one = walk.random.below(4) === 0 ? walk.random.pick(own) : own[0]!;
  const mode = walk.random.pick(['period_end', 'force'] as const);
  const path = `/subscriptions/${one.id}/cancel`;
  return `is cancelled by the merchant, ${mode}: ${told(await byMerchant(walk, 'POST', path, { mode }))}`;
}

/** Lifts a forced end. */
export async function reinstate(walk: Walk, walker: Walker): Promise<Said> {
  const forced = (await ownOf(walk, walker)).find(({ endReason }) => endReason === 'forced');
  if (forced === undefined) return undefined;
  const path = `/subscriptions/${forced.id}/reinstate`;
  return `is reinstated: ${told(await byMerchant(walk, 'POST', path))}`;
}

/** Pauses, or ends a pause. */
export async function pauseOrGoOn(walk: Walk, walker: Walker): Promise<Said> {
  const own = (await ownOf(walk, walker)).find(isLive);
  if (own === undefined) return undefined;
  const verb = own.pausedAt === null ? 'pause' : 'unpause';
  return `${verb}: ${told(await byMerchant(walk, 'POST', `/subscriptions/${own.id}/${verb}`))}`;
}

/** Gives a discount, or takes it back. */
export async function discount(walk: Walk, walker: Walker): Promise<Said> {
  const { random } = walk;
  const own = (await ownOf(walk, walker)).find(isLive);
  if (own === undefined) return undefined;
  const given =
    random.below(4) === 0
      ? null
      : { percentOff: 10 + random.below(80), periods: 1 + random.below(3) };
  const path = `/subscriptions/${own.id}`;
  return `gets a discount: ${told(await byMerchant(walk, 'PATCH', path, { discount: given }))}`;
}

/** Refunds a part or the rest of a payment; sometimes it is asked for and not signed. */
export async function refund(walk: Walk, walker: Walker): Promise<Said> {
  const { random, stage, merchant, merchantToken: token } = walk;
  const payments = await stage.sql<{ id: string; net: bigint }[]>`
    select id, amount_net as net from payments
    where subscriber_wallet = ${walker.keypair.address} and status = 'succeeded'
      and source = 'keeper' order by id desc limit 2`;
  if (payments.length === 0) return undefined;
  const payment = random.pick(payments);
  const isPart = random.below(2) === 0;
  const amount = 1n + BigInt(random.below(Number(payment.net)));
  const isSigned = random.below(8) > 0;
  const path = `/transactions/${payment.id}/refunds`;
  const body = isPart ? { amount: String(amount) } : {};
  const asked = await byMerchant<{ id: string; transaction: string; offerId: string }>(
    ...([walk, 'POST', path, body] as const),
  );
  if (asked.status !== 201) return `refund: ${told(asked)}`;
  const { id, transaction, offerId } = asked.body.data;
  if (!isSigned) return 'refund: asked for only';
  const sent = await whileMining(
    stage,
    stage.api.call<{ status: string }>('POST', '/merchant/transactions', {
      token,
      body: { transaction: addSignature(merchant, transaction), offerId },
    }),
  );
  if (sent.status === 200 && sent.body.data.status === 'confirmed') await recorded(walk, id);
  return `refund of ${isPart ? amount : 'all'}: ${told(sent)}`;
}

/** Waits until a keeper has recorded the refund. */
async function recorded({ stage, keeper }: Walk, id: string): Promise<void> {
  if (keeper === undefined) return;
  await stage.until('the refund is recorded', async () => {
    stage.net.mineBlocks(2);
    // A keeper looks for older ones less often.
    const [row] = await stage.sql<{ status: string }[]>`
      update refunds set look_at = least(look_at, now()) where id = ${id} returning status`;
    return row?.status !== 'pending';
  });
}

/** The plan's owner pulls with a key of its own. */
export async function pullForeign(walk: Walk, walker: Walker): Promise<Said> {
  const { random, stage, plans, merchant } = walk;
  const own = await ownOf(walk, walker);
  if (own.length === 0) return undefined;
  const { pda, planId } = random.below(3) === 0 ? random.pick(own) : own[0]!;
  const plan = plans.find(({ id }) => id === planId)!;
  const amount = random.below(2) === 0 ? plan.terms.amount : plan.terms.amount / 3n;
  const pull = transferSubscription(stage.net.programId, {
    ...{ subscriber: walker.keypair.address, plan: plan.pda, subscription: pda },
    ...{ caller: merchant.address, receiver: merchant.address, mint: stage.net.mint, amount },
  });
  const end = await stage.send([merchant], [pull]).then(
    () => 'landed',
    (error: unknown) => (error instanceof Error ? error.message.slice(0, 80) : 'failed'),
  );
  return `is pulled from by the owner, ${amount}: ${end}`;
}

/** The keeper restarts, or is away for some time. */
export async function restart(walk: Walk): Promise<Said> {
  const { random } = walk;
  const isAway = random.below(3) === 0;
  if (walk.keeper === undefined) {
    await startKeeper(walk);
    return 'the keeper is back';
  }
  await stopKeeper(walk);
  if (isAway && random.below(2) === 0) return 'the keeper stops';
  if (isAway) await pass(walk, random.pick([1, 24, 300, 800]));
  await startKeeper(walk);
  return `the keeper restarts${isAway ? ' after some time' : ''}`;
}
