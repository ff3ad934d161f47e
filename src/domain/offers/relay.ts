// The relay sends a transaction that a wallet has signed, if the service built this transaction for
// the wallet.
import { setTimeout as pause } from 'node:timers/promises';
import bs58 from 'bs58';
import { PROGRAM_ERRORS } from '../../chain/program/program-errors.ts';
import { follow, isSentAgain, markSent, outcomeOf, pollStatuses } from '../../chain/rpc/follow.ts';
import type { SignatureStatus } from '../../chain/rpc/responses.ts';
import type { Lifetime } from '../../chain/rpc/rpc.ts';
import {
  type ChangeWhen,
  findOffers,
  insertOffer,
  type OfferedTransaction,
  type Purpose,
} from '../../db/offers/offers.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import { invalidField } from '../../errors.ts';
import { type ChainSender, reaching, readLanding, type Unsigned } from '../chain-reads.ts';

/**
 * Milliseconds that one request waits for confirmation. After that the caller repeats the request
 * with the same transaction.
 */
const PATIENCE_MS = 8000;
/** Interval at which a relayed transaction's status is polled. */
const POLL_MS = 250;
/**
 * Milliseconds before a request sends its transaction again, or asks again whether the transaction
 * is dead. The calls count toward SOLANA_SERVE_RATE.
 */
const RESEND_MS = 4000;
/**
 * Offset of the message in the bytes of a transaction with one signer. A count byte and a 64-byte
 * signature precede the message.
 */
const MESSAGE_OFFSET = 65;

/**
 * An unsigned transaction for a wallet to sign. A wallet that sends the transaction without the
 * relay needs `minContextSlot`.
 */
export interface Offer {
  transaction: string;
  /** Identifies the offer in the request to the relay. */
  offerId: string;
  /** The slot that an endpoint must have reached to know the blockhash. */
  minContextSlot: number;
}

export interface SignedOffer {
  offer: OfferedTransaction;
  bytes: Buffer;
  signature: string;
  /** The blockhash of the signed transaction. A wallet may have replaced the offer's blockhash. */
  blockhash: string;
}

/** A signed transaction that the relay accepts, with the lifetime of its blockhash. */
export interface TakenOffer extends Omit<SignedOffer, 'blockhash'> {
  lifetime: Lifetime;
}

/**
 * `lapsed`: the blockhash expired before the transaction landed. `pending`: the outcome is not
 * known yet.
 */
export interface RelayOutcome {
  status: 'confirmed' | 'pending' | 'lapsed' | 'failed';
  /** The reason of the failure, as a message to the wallet's owner. */
  reason: string | null;
}

/**
 * Stores an unsigned transaction that the service offers to a wallet, and returns the offer. The
 * relay only accepts stored transactions.
 */
export async function offerTransaction(
  sql: Queryable,
  { transaction, blockhash, lastValidBlockHeight, slot }: Unsigned,
  target: {
    wallet: string;
    purpose: Purpose;
    planId: string | null;
    subscriptionPda?: string;
    checkoutSessionId?: string | null;
    resumes?: boolean;
    replaces?: string | null;
    changeWhen?: ChangeWhen | null;
    cancels?: boolean;
    trialHours?: number | null;
  },
): Promise<Offer> {
  const message = Buffer.from(transaction, 'base64').subarray(MESSAGE_OFFSET);
  const offerId = await insertOffer(sql, {
    subscriptionPda: null,
    checkoutSessionId: null,
    resumes: false,
    replaces: null,
    changeWhen: null,
    cancels: null,
    trialHours: null,
    ...target,
    message,
    blockhash,
    lastValidBlockHeight,
    blockhashSlot: slot,
  });
  return { transaction, offerId, minContextSlot: Number(slot) };
}

/**
 * Finds the stored offer of a signed transaction (base64): the offer `offerId`, or the only offer
 * that the transaction fits. Throws VALIDATION_ERROR when the service did not build the transaction
 * for this wallet.
 */
export async function findSignedOffer(
  sql: Queryable,
  wallet: string,
  { transaction, offerId }: { transaction: string; offerId?: string | undefined },
): Promise<SignedOffer> {
  // web3.js loads slowly and only the relay needs it here, so it is imported on demand.
  const { forbiddenChange, readSigned } = await import('../../chain/transactions/signed.ts');
  const bytes = Buffer.from(transaction, 'base64');
  const signed = bytes.toString('base64') === transaction ? readSigned(bytes) : undefined;
  if (signed?.signer !== wallet)
    throw invalidField(
      'transaction',
      'must be a legacy transaction, or one of version 0 without lookup tables, signed by your wallet alone',
    );
  const { blockhash } = signed;
  const offers = await findOffers(sql, wallet, { blockhash, offerId });
  if (offers.length === 0)
    throw offerId === undefined
      ? invalidField('transaction', 'is none that the service built for your wallet, or is too old')
      : invalidField('offerId', 'is no offer of the service to your wallet, or is too old');
  const changes = offers.map((offer) =>
    offer.purpose === 'refund' && offer.blockhash !== blockhash
      ? 'a refund keeps its blockhash, because two of them would pay twice'
      : forbiddenChange(offer.message, signed.message, 'wallet'),
  );
  const fitting = offers.filter((_, index) => changes[index] === undefined);
  const [offer] = fitting;
  if (offer === undefined)
    throw invalidField(
      'transaction',
      `differs from what the service built for your wallet: ${changes[0]}`,
    );
  if (fitting.some((other) => !sameEffect(offer, other)))
    throw invalidField('offerId', 'is required: the transaction fits several offers');
  return { offer, bytes, signature: bs58.encode(signed.signature), blockhash };
}

/**
 * Tells whether two offers have the same effect. A repeated offer differs only in its blockhash.
 */
function sameEffect(a: OfferedTransaction, b: OfferedTransaction): boolean {
  return (
    a.purpose === b.purpose &&
    a.planId === b.planId &&
    a.subscriptionPda === b.subscriptionPda &&
    a.checkoutSessionId === b.checkoutSessionId &&
    a.replaces === b.replaces &&
    a.changeWhen === b.changeWhen &&
    a.trialHours === b.trialHours
  );
}

/**
 * Sends and resends the transaction until it is confirmed, failed or lapsed, or until PATIENCE_MS
 * is over. Awaits `beforeSend` once, before it first sends. Throws INTERNAL_ERROR when the chain is
 * unreachable, and as `beforeSend` does.
 */
export async function relay(
  chain: ChainSender,
  signed: TakenOffer,
  beforeSend?: () => Promise<void>,
): Promise<RelayOutcome> {
  const { offer, bytes } = signed;
  const deadline = performance.now() + PATIENCE_MS;
  const sent = follow(signed);
  let checked = false;
  let judgeAt = 0;
  for (;;) {
    await reaching(pollStatuses(chain, [sent], { history: true }));
    const { status } = sent;
    const isLate = performance.now() > deadline;
    let outcome = shownBy(status, offer);
    if (outcome === undefined && (performance.now() >= judgeAt || isLate)) {
      judgeAt = performance.now() + RESEND_MS;
      outcome = await askAll(chain, signed, { isLate, isSeen: status !== null });
    }
    if (outcome === undefined && status === null && !checked) {
      outcome = await simulate(chain, signed);
      checked = true;
    }
    if (outcome !== undefined) return outcome;
    if (isLate) return { status: 'pending', reason: null };
    // A status from one endpoint does not prevent the first send, because it may be wrong.
    if (sent.sends === 0 || isSentAgain(sent, performance.now(), RESEND_MS)) {
      if (sent.sends === 0) await beforeSend?.();
      markSent(sent);
      await reaching(chain.sendTransaction(bytes));
    }
    await pause(POLL_MS);
  }
}

/** The outcome that a status proves. */
function shownBy(
  status: SignatureStatus | null,
  offer: OfferedTransaction,
): RelayOutcome | undefined {
  const outcome = outcomeOf(status);
  if (outcome === 'failed') return { status: 'failed', reason: failureOf(status?.err, offer) };
  return outcome && { status: 'confirmed', reason: null };
}

/** Whether the chain shows the transaction as confirmed. Throws INTERNAL_ERROR. */
export async function hasLanded(chain: ChainSender, { signature }: SignedOffer): Promise<boolean> {
  const { statuses } = await reaching(chain.getSignatureStatuses([signature], { history: true }));
  return outcomeOf(statuses[0] ?? null) === 'landed';
}

const readEverywhere = async (chain: ChainSender, { signature }: TakenOffer) => {
  const options = { history: true, everywhere: true };
  const { statuses } = await reaching(chain.getSignatureStatuses([signature], options));
  return statuses[0] ?? null;
};

/**
 * Asks all endpoints for the outcome of the transaction. Returns undefined while the outcome is
 * uncertain. Asks only at the end of the request (`isLate`), or if the transaction was seen or has
 * probably expired.
 */
async function askAll(
  chain: ChainSender,
  signed: TakenOffer,
  { isLate, isSeen }: { isLate: boolean; isSeen: boolean },
): Promise<RelayOutcome | undefined> {
  const { offer, lifetime } = signed;
  const isPast = async () =>
    (await reaching(chain.getBlockHeight({ commitment: 'finalized' }))) >
    lifetime.lastValidBlockHeight;
  if (isLate || (await isPast())) {
    const { verdict, status } = await readLanding(chain, signed);
    if (verdict === 'dead') return { status: 'lapsed', reason: null };
    const outcome = shownBy(status, offer);
    if (outcome !== undefined) return outcome;
  }
  return isLate || isSeen ? shownBy(await readEverywhere(chain, signed), offer) : undefined;
}

/**
 * Simulates a transaction that the polled endpoint does not know. A failure counts only if no
 * endpoint knows the transaction, because an earlier request may have sent it.
 */
async function simulate(chain: ChainSender, signed: TakenOffer): Promise<RelayOutcome | undefined> {
  const { bytes, offer } = signed;
  const { err } = await reaching(chain.simulateTransaction(bytes, { ownBlockhash: true }));
  if (err === null || err === 'BlockhashNotFound' || err === 'AlreadyProcessed') return undefined;
  const status = await readEverywhere(chain, signed);
  return status === null
    ? { status: 'failed', reason: failureOf(err, offer) }
    : shownBy(status, offer);
}

const reasons: Readonly<Record<string, string>> = {
  PlanSunset: 'The plan takes no new subscriptions.',
  PlanExpired: 'The plan has ended.',
  PlanClosed: 'The plan was closed.',
  PlanTermsMismatch: 'The plan was replaced by another one.',
  AlreadySubscribed: 'This wallet is subscribed already.',
  StaleSubscriptionAuthority: 'The wallet replaced its approval. Try again.',
  SubscriptionAlreadyCancelled: 'The subscription is cancelled already.',
  SubscriptionNotCancelled: 'The subscription is not cancelled.',
};
/** Errors of the token program. Codes of the Subscriptions program begin at 100. */
const TOKEN_ERRORS: Readonly<Record<string, string>> = {
  3: 'The token account is of another token than USDC.',
  4: 'The USDC account belongs to another wallet, or its approval was changed. Try again.',
  9: 'The USDC account does not exist yet.',
  13: 'The USDC account is not in a state that allows this.',
  17: 'The USDC account is frozen by the issuer of USDC.',
};
const TOO_LITTLE_SOL = 'The wallet has too little SOL for this transaction.';
const TOO_LITTLE_USDC = 'The wallet has too little USDC or SOL for this transaction.';

/** Purposes of transactions as phrases for messages. */
const PLAN_PURPOSES: Partial<Record<Purpose, string>> = {
  publish: 'publish the plan',
  pullers: 'change the pullers of the plan',
  refund: 'send the refund',
  revoke: 'revoke the approval',
};

const isTooLittleSol = (err: unknown) =>
  /InsufficientFunds|AccountNotFound/.test(typeof err === 'string' ? err : JSON.stringify(err));

/** Simulates a transaction. Returns whether its wallet has too little SOL to pay for it. */
export async function lacksSol(
  chain: ChainSender,
  { transaction }: Pick<Unsigned, 'transaction'>,
): Promise<boolean> {
  const bytes = Buffer.from(transaction, 'base64');
  const { err } = await reaching(chain.simulateTransaction(bytes));
  return err !== null && isTooLittleSol(err);
}

function failureOf(err: unknown, { purpose }: OfferedTransaction): string {
  if (isTooLittleSol(err)) return TOO_LITTLE_SOL;
  const text = typeof err === 'string' ? err : JSON.stringify(err);
  const code = /"Custom":(\d+)/.exec(text)?.[1];
  // 1 is the code of the system program and the token program for insufficient funds.
  if (code === '1') return purpose === 'refund' ? TOO_LITTLE_USDC : TOO_LITTLE_SOL;
  const ofToken = TOKEN_ERRORS[code ?? ''];
  if (ofToken !== undefined) return ofToken;
  const name = code === undefined ? undefined : PROGRAM_ERRORS.get(Number(code));
  return (
    reasons[name ?? ''] ??
    `The network refused to ${PLAN_PURPOSES[purpose] ?? purpose}: ${name ?? text}.`
  );
}
