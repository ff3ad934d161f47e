// The keeper's payment transactions: for each payment a transfer of the net and one of the fee, and
// one memo per transaction.
import { createHash } from 'node:crypto';
import { type VersionedMessage, VersionedTransaction } from '@solana/web3.js';
import type { Keypair } from '../keypair.ts';
import { COMPUTE_BUDGET_PROGRAM, publicKey } from '../program/addresses.ts';
import {
  type Instruction,
  isTransfer,
  type SubscriptionParties,
  transferSubscription,
} from '../program/instructions.ts';
import { isV1, priorityFeeV1, signTransactionV1, type TransactionBudget } from './message-v1.ts';
import {
  add,
  type Contents,
  emptyTransaction,
  type Part,
  type TransactionVersion,
} from './room.ts';
import { type SignedTransaction, signTransaction } from './subscriptions.ts';
import {
  computeUnitLimit,
  computeUnitPrice,
  LAMPORTS_PER_SIGNATURE,
  loadedDataLimit,
  memo,
  MICRO,
} from './system-instructions.ts';

/** Accounts and amounts of one payment. Amounts are base units; a zero amount has no transfer. */
export interface Collection extends SubscriptionParties {
  readonly programId: string;
  readonly mint: string;
  readonly keeper: string;
  /** The receiving wallets, destinations of the plan. */
  readonly merchant: string;
  readonly treasury: string;
  readonly net: bigint;
  readonly fee: bigint;
}

/** The transfers of a payment. Throws a RangeError when both amounts are 0. */
export function transfersOf(collection: Collection): Instruction[] {
  const { programId, mint, keeper, merchant, treasury, net, fee } = collection;
  const { subscriber, plan, subscription } = collection;
  if (net <= 0n && fee <= 0n) throw new RangeError('a collection moves at least one base unit');
  return [
    { receiver: merchant, amount: net },
    { receiver: treasury, amount: fee },
  ]
    .filter(({ amount }) => amount !== 0n)
    .map(({ receiver, amount }) =>
      transferSubscription(programId, {
        caller: keeper,
        receiver,
        amount,
        subscriber,
        plan,
        subscription,
        mint,
      }),
    );
}

/**
 * Instruction trace entries per transfer: the instruction, the token transfer that it calls, and
 * its event.
 */
const TRACE_ENTRIES = 3;

/** A payment as a part of a transaction; `costs` are its limits. */
export function paymentPart(
  collection: Collection,
  costs: Pick<Part, 'computeUnits' | 'loadedDataBytes'>,
): Part {
  const instructions = transfersOf(collection);
  return { instructions, traceEntries: TRACE_ENTRIES * instructions.length, ...costs };
}

/**
 * A memo that makes this transaction differ from others with the same payments and blockhash. It
 * holds a hash, because memos are public.
 */
const memoOf = (reference: string) =>
  memo(`billing ${createHash('sha256').update(reference).digest('hex').slice(0, 32)}`);

/** Instructions before the payments; none for version 1, which has limits and fee in its header. */
function prologue(version: TransactionVersion, budget: TransactionBudget): Instruction[] {
  if (version === 1) return [];
  const { computeUnits, priorityFee, loadedDataBytes } = budget;
  return [
    computeUnitLimit(computeUnits),
    computeUnitPrice((priorityFee * MICRO) / BigInt(Math.max(computeUnits, 1))),
    loadedDataLimit(loadedDataBytes),
  ];
}

/**
 * A transaction without payments. `loadedDataBytes`: the data that all payments share, which is
 * programs and mint.
 */
function withoutPayments(
  version: TransactionVersion,
  keeper: string,
  loadedDataBytes: number,
): Contents {
  const budget = { computeUnits: 0, priorityFee: 0n, loadedDataBytes: 0 };
  const instructions = [...prologue(version, budget), memoOf('')];
  const part = { instructions, traceEntries: instructions.length, computeUnits: 0 };
  const contents = add(emptyTransaction(version, keeper), { ...part, loadedDataBytes });
  if (contents === null) throw new RangeError('the programs of a payment load too much data');
  return contents;
}

/**
 * Packs payments, in order, into as few transactions as possible; a payment that is `alone` gets
 * its own.
 */
export function packPayments<T extends { readonly part: Part; readonly alone: boolean }>(
  payments: readonly T[],
  shared: { version: TransactionVersion; keeper: string; loadedDataBytes: number },
): T[][] {
  const { version, keeper, loadedDataBytes } = shared;
  const empty = withoutPayments(version, keeper, loadedDataBytes);
  const packs: T[][] = payments.filter(({ alone }) => alone).map((one) => [one]);
  let contents: Contents | null = null;
  let pack: T[] = [];
  for (const one of payments) {
    if (one.alone) continue;
    const bigger: Contents | null = contents === null ? null : add(contents, one.part);
    if (bigger === null) packs.push((pack = []));
    pack.push(one);
    contents = bigger ?? add(empty, one.part);
  }
  return packs;
}

/**
 * Signs the transaction of these payments' transfers. Throws a RangeError when it is too long for
 * the network.
 */
export function signPayments(
  keypair: Keypair,
  transfers: readonly Instruction[],
  terms: {
    readonly version: TransactionVersion;
    readonly blockhash: string;
    readonly reference: string;
    readonly budget: TransactionBudget;
  },
): SignedTransaction {
  const { version, blockhash, reference, budget } = terms;
  const instructions = [...prologue(version, budget), ...transfers, memoOf(reference)];
  return version === 1
    ? signTransactionV1(keypair, instructions, blockhash, budget)
    : signTransaction(keypair, instructions, blockhash);
}

const decoded = new WeakMap<Uint8Array, VersionedMessage>();

/**
 * The message of a signed transaction. Its payments share the bytes, and decoding takes 0.3 ms: it
 * is done once. Throws an Error for other bytes.
 */
function messageIn(transaction: Uint8Array): VersionedMessage {
  const message = decoded.get(transaction) ?? VersionedTransaction.deserialize(transaction).message;
  decoded.set(transaction, message);
  return message;
}

/**
 * The blockhash that a transaction of any version was signed with. Throws an Error for other bytes.
 */
export const blockhashOf = (transaction: Uint8Array) => messageIn(transaction).recentBlockhash;

/**
 * Indexes of the instructions of a signed transaction that are transfers under this subscription.
 * Throws an Error for other bytes.
 */
export function transferPlaces(
  transaction: Uint8Array,
  programId: string,
  subscription: string,
): number[] {
  const { staticAccountKeys: keys, compiledInstructions } = messageIn(transaction);
  const [program, account] = [publicKey(programId), publicKey(subscription)];
  return compiledInstructions.flatMap(({ programIdIndex, accountKeyIndexes, data }, place) =>
    isTransfer(data) &&
    keys[programIdIndex]?.equals(program) === true &&
    keys[accountKeyIndexes[0] ?? -1]?.equals(account) === true
      ? [place]
      : [],
  );
}

/**
 * The fee of a transaction that we signed, in lamports: for its signatures and its priority. Throws
 * an Error for other bytes.
 */
export function transactionFee(transaction: Uint8Array): bigint {
  if (isV1(transaction)) return LAMPORTS_PER_SIGNATURE + priorityFeeV1(transaction);
  const message = messageIn(transaction);
  const signatures = BigInt(message.header.numRequiredSignatures) * LAMPORTS_PER_SIGNATURE;
  const budget = message.compiledInstructions.filter(
    ({ programIdIndex }) =>
      message.staticAccountKeys[programIdIndex]?.toBase58() === COMPUTE_BUDGET_PROGRAM,
  );
  // Discriminators of the compute budget program: 2 sets the limit (u32), 3 the price (u64).
  const field = (discriminator: number) =>
    budget.map(({ data }) => Buffer.from(data)).find((data) => data[0] === discriminator);
  const units = field(2)?.readUInt32LE(1) ?? 0;
  const price = field(3)?.readBigUInt64LE(1) ?? 0n;
  return signatures + (BigInt(units) * price + MICRO - 1n) / MICRO;
}
