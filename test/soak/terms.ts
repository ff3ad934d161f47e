// Actions of merchants besides cancelling: discounts, pauses and refunds.
import { createHash } from 'node:crypto';
import { ComputeBudgetProgram, Transaction } from '@solana/web3.js';
import { SUBSCRIPTIONS_PROGRAM as PROGRAM } from '../../src/chain/clusters.ts';
import { subscriptionAddress } from '../../src/chain/program/addresses.ts';
import { addSignature, unsignedTransaction } from '../../src/chain/transactions/message.ts';
import type { Sql } from '../../src/db/postgres/connect.ts';
import { updateDiscount } from '../../src/db/subscriptions/merchant-edits.ts';
import { reinstate } from '../../src/domain/change/cancel.ts';
import { pause, unpause } from '../../src/domain/change/pausing.ts';
import {
  askRefund,
  type RefundablePayment,
  readRefundGround,
} from '../../src/domain/offers/refunds.ts';
import { ServiceError } from '../../src/errors.ts';
import type { Random } from '../../src/local/sandbox/random.ts';
import type { Player } from './cast.ts';
import type { Ground } from './ground.ts';
import { sendSigned } from './send.ts';

/** A live registration. */
export interface Registration {
  id: string;
  status: string;
  cancelRequestedAt: Date | null;
  pausedAt: Date | null;
}

/** A refund of which the merchant's transfer landed. */
export interface Refunded {
  id: string;
  merchantWallet: string;
  amount: bigint;
}

export const TERMS = ['discount', 'pause', 'refund'] as const;

/** The live registration of an on-chain subscription. */
export async function findRegistration(sql: Sql, pda: string): Promise<Registration | undefined> {
  const [found] = await sql<Registration[]>`
    select id, status, cancel_requested_at, paused_at from subscriptions
    where subscription_pda = ${pda} and status in ('active', 'past_due')`;
  return found;
}

/**
 * The merchant of a wallet takes one of these actions; resolves with the action and its result.
 * Throws errors of the RPC client and Postgres.
 */
export async function changeTerms(
  ground: Ground,
  player: Player,
  kind: (typeof TERMS)[number],
  random: Random,
): Promise<string> {
  const pda = subscriptionAddress(PROGRAM, player.plan.pda, player.wallet.address).address;
  const found = await findRegistration(ground.sql, pda);
  if (found === undefined) return `${kind} of nothing`;
  try {
    if (kind === 'discount') await discount(ground, player, found, random);
    if (kind === 'pause') await ground.sql.begin((tx) => pause(tx, found));
    if (kind === 'refund') return await refund(ground, player, found, random);
    return kind;
  } catch (error) {
    if (error instanceof ServiceError) return `${kind} ${error.code}`;
    throw error;
  }
}

/** A paused subscription is collected from again. */
export async function goOn({ sql }: Ground, found: Registration, now: bigint): Promise<string> {
  try {
    await sql.begin((tx) => unpause(tx, found, now));
    return 'unpause';
  } catch (error) {
    if (error instanceof ServiceError) return `unpause ${error.code}`;
    throw error;
  }
}

/** The merchant lifts the forced end of the newest registration at an address. */
export async function reinstateNewest({ sql }: Ground, pda: string): Promise<string> {
  const [newest] = await sql<{ id: string }[]>`
    select id from subscriptions where subscription_pda = ${pda} order by id desc limit 1`;
  if (newest === undefined) return 'reinstate nothing';
  try {
    await sql.begin((tx) => reinstate(tx, newest, { anyEnd: false }));
    return 'reinstate';
  } catch (error) {
    if (error instanceof ServiceError) return `reinstate ${error.code}`;
    throw error;
  }
}

/** 60 to 90 % off all payments, by the seed. */
export function halfPrice(seed: string) {
  const share = createHash('sha256').update(seed).digest().readUInt16BE(0) % 31;
  return { discountPercent: 60 + share, discountAmount: null, discountPeriods: null };
}

/** A percentage or an amount, for some payments or for all; or none any more. */
async function discount(
  { sql }: Ground,
  { offer, isHalfPrice }: Player,
  { id }: Registration,
  random: Random,
): Promise<void> {
  if (isHalfPrice) {
    await sql.begin((tx) => updateDiscount(tx, id, halfPrice(`${id}${random.below(2 ** 31)}`)));
    return;
  }
  const kind = random.below(3);
  await sql.begin((tx) =>
    updateDiscount(tx, id, {
      discountPercent: kind === 0 ? 1 + random.below(99) : null,
      discountAmount: kind === 1 ? BigInt(1 + random.below(Number(offer.amount) - 1)) : null,
      discountPeriods: kind === 2 || random.below(2) === 0 ? null : 1 + random.below(3),
    }),
  );
}

/** Refunds the newest payment: all that is left of it, or a part. */
async function refund(
  { sql, rpc, mint, refunded }: Ground,
  { wallet, offer: { merchant } }: Player,
  { id: subscriptionId }: Registration,
  random: Random,
): Promise<string> {
  const [payment] = await sql<
    (Pick<RefundablePayment, 'id' | 'appId' | 'planId' | 'subscriptionPda' | 'status'> & {
      amountNet: bigint;
    })[]
  >`
    select id, app_id, plan_id, subscription_pda, status, amount_net from payments
    where subscription_id = ${subscriptionId} and status = 'succeeded'
    order by occurred_at desc limit 1`;
  if (payment === undefined) return 'refund of nothing';
  const subscriberWallet = wallet.address;
  const parties = { mint, merchant: merchant.address, subscriber: subscriberWallet };
  const funds = await readRefundGround(rpc, parties);
  const amount = random.below(2) === 0 ? null : BigInt(1 + random.below(Number(payment.amountNet)));
  const { refund: asked, offer: transfer } = await sql.begin((tx) =>
    askRefund(tx, { ...payment, subscriptionId, subscriberWallet }, amount, funds),
  );
  const priced = Transaction.from(Buffer.from(transfer.transaction, 'base64'));
  const own = priced.instructions.filter(
    ({ programId }) => !programId.equals(ComputeBudgetProgram.programId),
  );
  // The merchant's wallet sets a priority fee of zero: only the keepers pay one here, and theirs
  // follows that of others.
  const unpriced = unsignedTransaction(merchant.address, own, priced.recentBlockhash ?? '');
  const bytes = Buffer.from(addSignature(merchant.keypair, unpriced), 'base64');
  const end = await sendSigned(rpc, bytes, funds.lastValidBlockHeight);
  if (end !== 'landed') return `refund ${end}`;
  refunded.push({ id: asked.id, merchantWallet: merchant.address, amount: asked.amount });
  return 'refund';
}
