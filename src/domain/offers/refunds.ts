// Refunds: the service builds the transfer, the merchant's wallet signs the transfer, and a keeper
// records the finalized transfer.
//
//   pending -> succeeded (the transfer is finalized)
//   pending -> expired (the transfer is not on chain, and its blockhash has expired)
//   expired -> succeeded (the transfer is found on chain later)
//
// Refunds can exceed what is left of the payment. (1) The transfer of an expired refund is found
// after another refund or a credit. (2) The wallet signs one refund twice, with different priority
// fees, and both transfers land. A keeper looks for further transfers until the blockhash expires,
// and records each as a separate refund. The amount above the rest of the payment is `excess`.
//
// Each transfer contains an address of its own, the refund's reference. If the history of the
// reference cannot be read completely, the refund stays pending, because the transfer may be in the
// unread part.
import { randomBytes } from 'node:crypto';
import bs58 from 'bs58';
import { tokenAccountIn } from '../../chain/program/accounts.ts';
import { tokenAccountAddress } from '../../chain/program/addresses.ts';
import { isWitnessed } from '../../chain/rpc/expiry.ts';
import { judgeByReference } from '../../chain/rpc/landing.ts';
import type { SignatureInfo } from '../../chain/rpc/responses.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { timeOf } from '../../chain/time.ts';
import { paysRefund, refundTransaction } from '../../chain/transactions/refund.ts';
import { lockUnmatched } from '../../db/invoices/credits.ts';
import {
  type AwaitedRefund,
  countOpenRefunds,
  endSearch,
  expireRefund,
  insertRefund,
  lockRefunded,
  readRefundable,
  recordRefund,
  recordRepeat,
  type RefundRow,
  takeAwaitedRefunds,
} from '../../db/money/refunds.ts';
import type { Sql, Transaction } from '../../db/postgres/connect.ts';
import type { Notifier } from '../../db/postgres/notify.ts';
import { endRefundedPeriod } from '../../db/subscriptions/refunded.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import { type ChainReader, readAccounts, readBlockhash } from '../chain-reads.ts';
import { appendEvents } from '../outbox/events.ts';
import { type Offer, offerTransaction } from './relay.ts';

/**
 * Maximum numbers of open refunds. A refund is open until the relay has accepted its signed
 * transfer, or its blockhash has expired. The number is limited because keepers look for each
 * transfer for a day.
 */
const [MAX_OPEN_PER_PAYMENT, MAX_OPEN_PER_MERCHANT] = [3, 50];
/** Number of refunds that are polled per batch. */
const AWAITED_AT_ONCE = 20;
/** Page size of getSignaturesForAddress. */
const PAGE = 1000;
/**
 * Maximum number of pages read per poll. The pages are limited because anyone can make the history
 * of a reference long once the transfer has made the reference public.
 */
const MAX_PAGES = 50;
/**
 * Maximum number of transactions read for a reference, oldest first. The reference is secret until
 * the transfer is sent, so the transfer is among the reference's first transactions.
 */
const MAX_READ = 50;

export interface RefundablePayment {
  id: string;
  appId: string;
  planId: string;
  subscriptionId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  status: string;
}

/** The chain state from which a refund is built. */
export interface RefundGround {
  readonly mint: string;
  readonly merchant: string;
  /** Base units that the merchant's token account holds. */
  readonly funds: bigint;
  readonly hasTokenAccount: boolean;
  /** The party whose token account the issuer has frozen; null when neither account is frozen. */
  readonly frozen: 'merchant' | 'subscriber' | null;
  readonly blockhash: string;
  readonly lastValidBlockHeight: bigint;
  /** Slot of the response with the blockhash. */
  readonly slot: bigint;
  /** Block height of that response. */
  readonly blockHeight: bigint;
}

/**
 * Reads both token accounts and a blockhash. Throws INTERNAL_ERROR when the chain is unreachable.
 */
export async function readRefundGround(
  chain: ChainReader,
  { mint, merchant, subscriber }: { mint: string; merchant: string; subscriber: string },
): Promise<RefundGround> {
  const [{ accounts }, blockhash] = await Promise.all([
    readAccounts(
      chain,
      [merchant, subscriber].map((owner) => tokenAccountAddress(owner, mint).address),
    ),
    readBlockhash(chain),
  ]);
  const [ownAccount = null, otherAccount = null] = accounts;
  const [paying, receiving] = [tokenAccountIn(ownAccount), tokenAccountIn(otherAccount)];
  const isFrozen = (account: typeof paying) => account?.state === 'frozen';
  return {
    mint,
    merchant,
    frozen: isFrozen(paying) ? 'merchant' : isFrozen(receiving) ? 'subscriber' : null,
    funds: paying?.amount ?? 0n,
    hasTokenAccount: otherAccount !== null,
    ...blockhash,
  };
}

/**
 * Stores a refund of `amount` base units (null: the whole refundable rest) and offers its transfer.
 * Throws CONFLICT when nothing can be refunded, a sponsored change of plan is under way, too many
 * refunds of the payment or the merchant are open, a token account is frozen, the merchant's
 * account holds less than the refund, or the payment became credit that is spent. Throws
 * VALIDATION_ERROR when `amount` exceeds the refundable rest.
 */
export async function askRefund(
  sql: Transaction,
  payment: RefundablePayment,
  amount: bigint | null,
  ground: RefundGround,
): Promise<{ refund: RefundRow; offer: Offer }> {
  const { left, isChanging } = await readRefundable(sql, payment.id);
  if (isChanging)
    throw new ServiceError(
      'CONFLICT',
      'A change of plan of the subscriber is under way, which may use a part of this payment. Try again in a minute.',
    );
  if (payment.status !== 'succeeded' || left === 0n)
    throw new ServiceError('CONFLICT', 'Nothing of this payment is left to refund.');
  const refundAmount = amount ?? left;
  if (refundAmount > left)
    throw invalidField(
      'amount',
      `must be at most ${left}, which is what is left of the net amount`,
    );
  const balance = await lockUnmatched(sql, payment.id);
  if (balance !== undefined && refundAmount > balance)
    throw new ServiceError(
      'CONFLICT',
      `This payment paid no invoice and became credit of the customer, of which ${balance} base units are not spent yet.`,
    );
  await refuseManyOpen(sql, payment, ground);
  if (ground.frozen !== null)
    throw new ServiceError(
      'CONFLICT',
      `The USDC account of the ${ground.frozen} is frozen by the issuer of USDC: a refund cannot be sent.`,
    );
  if (refundAmount > ground.funds)
    throw new ServiceError(
      'CONFLICT',
      `Your token account holds ${ground.funds} base units, less than the refund of ${refundAmount}.`,
    );
  const { id: transactionId, appId, planId, subscriptionId, subscriptionPda } = payment;
  const { subscriberWallet: subscriber } = payment;
  const reference = bs58.encode(randomBytes(32));
  const { mint, merchant, blockhash, lastValidBlockHeight, slot: blockhashSlot } = ground;
  const refundRow = { appId, transactionId, subscriptionId, amount: refundAmount, reference };
  const lifetime = { blockhash, lastValidBlockHeight, blockhashSlot };
  const transfer = { mint, merchant, subscriber, amount: refundAmount, reference };
  const transaction = refundTransaction(transfer, ground);
  const unsigned = { transaction, blockhash, lastValidBlockHeight, slot: blockhashSlot };
  const target = { wallet: merchant, purpose: 'refund', planId, subscriptionPda } as const;
  const offer = await offerTransaction(sql, unsigned, target);
  const refund = await insertRefund(sql, { ...refundRow, ...lifetime, offerId: offer.offerId });
  return { refund, offer };
}

async function refuseManyOpen(
  sql: Transaction,
  { appId, id: paymentId }: RefundablePayment,
  { blockHeight }: RefundGround,
): Promise<void> {
  const { ofPayment, ofMerchant } = await countOpenRefunds(sql, { appId, paymentId }, blockHeight);
  const [max, whose] =
    ofPayment >= MAX_OPEN_PER_PAYMENT
      ? [MAX_OPEN_PER_PAYMENT, 'of this payment']
      : [MAX_OPEN_PER_MERCHANT, 'of yours'];
  if (ofPayment < MAX_OPEN_PER_PAYMENT && ofMerchant < MAX_OPEN_PER_MERCHANT) return;
  throw new ServiceError(
    'CONFLICT',
    `${max} refunds ${whose} wait for your signature: send one, or ask again in about a minute.`,
  );
}

interface RecordingParts {
  readonly sql: Sql;
  readonly rpc: Pick<
    Rpc,
    | 'getSignaturesForAddress'
    | 'getTransactionEverywhere'
    | 'getLifetimesEverywhere'
    | 'getHistoriesEverywhere'
    | 'getHeights'
    | 'endpoints'
  >;
  readonly log: Pick<Log, 'warn' | 'error'>;
  readonly metrics: {
    readonly alerts: { inc: (labels: { reason: 'refund_excess' }) => void };
  };
  /** Wakes the dispatchers. */
  readonly deliveries: Notifier;
}

/**
 * Looks for the transfers of one batch of refunds. Resolves with true when more refunds may be due.
 * Throws as the RPC client does.
 */
export async function recordRefunds(parts: RecordingParts): Promise<boolean> {
  const awaited = await takeAwaitedRefunds(parts.sql, AWAITED_AT_ONCE);
  for (const refund of awaited) await readRefund(parts, refund);
  return awaited.length === AWAITED_AT_ONCE;
}

async function readRefund(parts: RecordingParts, refund: AwaitedRefund): Promise<void> {
  const { sql, rpc, log } = parts;
  const found = await findTransfer(rpc, refund);
  if ('transfer' in found) {
    await record(parts, refund, found.transfer);
    return;
  }
  const { id, isOverdue, status } = refund;
  if (!isOverdue || status === 'expired') return;
  const isOver = found.isWhole && (await cannotLand(rpc, refund, found.others));
  if (status === 'succeeded') {
    if (isOver) await endSearch(sql, id);
  } else if (isOver) await expireRefund(sql, id);
  else log.warn({ refund: id }, 'refund stays pending: no proof that it did not land');
}

/**
 * Whether a transfer that is not recorded can never land. A wrong result would lead to a second
 * refund of the amount. `others` has the transactions of the reference that are not a transfer of
 * the refund. Reads the histories again, because the transfer may have landed since the last read,
 * before the blockhash expired.
 */
async function cannotLand(
  rpc: RecordingParts['rpc'],
  { lifetime: stored, reference }: AwaitedRefund,
  others: ReadonlySet<string>,
): Promise<boolean> {
  const lifetime = { ...stored, slot: stored.blockhashSlot };
  return (await judgeByReference(rpc, { reference, lifetime }, others)) === 'dead';
}

interface Transfer {
  readonly txSignature: string;
  readonly occurredAt: Date;
}

/**
 * What the reference's history shows: a transfer that is not recorded, or other transactions.
 * `isWhole` is true if all of its transactions were read.
 */
type HistoryFindings =
  | { readonly transfer: Transfer }
  | { readonly others: ReadonlySet<string>; readonly isWhole: boolean };

/**
 * Looks for the oldest finalized transfer of the refund that is not recorded yet. Compares the
 * copies of all endpoints, because one copy may be wrong. If enough endpoints return a transaction
 * and no copy is a transfer of the refund, the transaction is in `others`. Throws as the RPC client
 * does.
 */
async function findTransfer(
  rpc: RecordingParts['rpc'],
  refund: AwaitedRefund,
): Promise<HistoryFindings> {
  const { merchantWallet: merchant, subscriberWallet: subscriber } = refund;
  const others = new Set(refund.recorded);
  const history = await listOldest(rpc, refund);
  if (history === undefined) return { others, isWhole: false };
  let { isWhole } = history;
  for (const { signature: txSignature, blockTime } of history.oldest) {
    if (others.has(txSignature)) continue;
    const { copies, witnesses } = await rpc.getTransactionEverywhere(txSignature);
    const paying = copies.filter((copy) => paysRefund(copy, { ...refund, merchant, subscriber }));
    if (paying.length > 0) {
      const times = [...paying.map((copy) => copy.blockTime), blockTime];
      const at = times.find((time) => time !== null);
      // If the block has no time yet, the transfer is read again later, because analytics count the
      // refund on the day of its block time.
      if (at === undefined) return { others, isWhole: false };
      return { transfer: { txSignature, occurredAt: timeOf(at) } };
    }
    if (isWitnessed(rpc, witnesses)) others.add(txSignature);
    else isWhole = false;
  }
  return { others, isWhole };
}

/**
 * Returns the oldest successful transactions of a refund's reference, oldest first. `isWhole` is
 * true if no successful transaction was left out. Returns undefined when the history is too long to
 * read. For an overdue refund, asks all RPC endpoints, because an endpoint may lag or lack the
 * history.
 */
async function listOldest(
  rpc: RecordingParts['rpc'],
  { reference, isOverdue: everywhere }: AwaitedRefund,
): Promise<{ oldest: SignatureInfo[]; isWhole: boolean } | undefined> {
  let oldest: SignatureInfo[] = [];
  let isWhole = true;
  let before: string | undefined;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const options = { before, limit: PAGE, commitment: 'finalized', everywhere } as const;
    const page = await rpc.getSignaturesForAddress(reference, options);
    const successful = [...oldest, ...page.filter(({ err }) => err === null)];
    oldest = successful.slice(-MAX_READ);
    isWhole &&= oldest.length === successful.length;
    if (page.length < PAGE) return { oldest: oldest.toReversed(), isWhole };
    before = page.at(-1)?.signature;
  }
  return undefined;
}

/**
 * Records a finalized transfer and queues its event. Raises an alert if the transfer exceeds what
 * was left of the payment. Does nothing when the transfer is already recorded.
 */
async function record(
  { sql, log, metrics, deliveries }: RecordingParts,
  { id: of, status }: AwaitedRefund,
  transfer: Transfer,
): Promise<void> {
  const { txSignature } = transfer;
  const isRepeat = status === 'succeeded';
  const done = await sql.begin(async (tx) => {
    // Keepers lock the subscription before the customer's balance.
    await lockRefunded(tx, of);
    const recorded = await (isRepeat ? recordRepeat : recordRefund)(tx, of, transfer);
    if (recorded === undefined) return undefined;
    const { id, subscriptionId, transactionId, amount } = recorded;
    await endRefundedPeriod(tx, transactionId, transfer.occurredAt);
    const extra = { refundId: id, transactionId, amount, txSignature };
    const queued = await appendEvents(tx, [{ subscriptionId, type: 'refund_recorded', extra }]);
    return { recorded, queued };
  });
  if (done === undefined) return;
  deliveries.notify(done.queued);
  const { id: refund, transactionId: payment, excess } = done.recorded;
  if (isRepeat) log.warn({ refund, repeats: of, payment, txSignature }, 'refund landed again');
  if (excess > 0n) {
    const reason = 'refund_excess';
    metrics.alerts.inc({ reason });
    const amount = excess.toString();
    log.error({ refund, payment, txSignature, amount, reason }, 'refunded beyond the payment');
  }
}
