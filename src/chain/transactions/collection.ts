// Builds the keeper's payment transactions. Each payment has a transfer of the net amount and a
// transfer of the fee. Each transaction has one memo.
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

/**
 * Accounts and amounts of one payment. Amounts are base units. An amount of zero has no transfer.
 */
export interface Collection extends SubscriptionParties {
  readonly programId: string;
  readonly mint: string;
  readonly keeper: string;
  /** The wallets that receive the net amount and the fee. Both are destinations of the plan. */
  readonly merchant: string;
  readonly treasury: string;
  readonly net: bigint;
  readonly fee: bigint;
}

/** Builds the transfers of a payment. Throws a RangeError when both amounts are 0. */
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
 * Instruction trace entries per transfer: the instruction itself, its call of the token program,
 * and its event.
 */
const TRACE_ENTRIES = 3;

/** Makes the part that a payment adds to a transaction. `costs` are the payment's limits. */
export function paymentPart(
  collection: Collection,
  costs: Pick<Part, 'computeUnits' | 'loadedDataBytes'>,
): Part {
  const instructions = transfersOf(collection);
  return { instructions, traceEntries: TRACE_ENTRIES * instructions.length, ...costs };
}

/**
 * Builds a memo that makes this transaction differ from others with the same payments and
 * blockhash. The memo contains a hash of the reference, because memos are public.
 */
const memoOf = (reference: string) =>
  memo(`billing ${createHash('sha256').update(reference).digest('hex').slice(0, 32)}`);

/**
 * Builds the instructions that come before the payments. There are none for version 1, which has
 * limits and fee in its header.
 */
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
 * A transaction without payments. `loadedDataBytes` is the size of the accounts that all payments
 * load: the programs and the mint.
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
 * Packs payments, in order, into as few transactions as possible. A payment with `alone` gets its
 * own transaction.
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
 * Signs a transaction with the transfers of these payments. Throws a RangeError when the
 * transaction is too long for the network.
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
 * The message of a signed transaction. The decoded message is cached, because decoding takes 0.3 ms
 * and all payments of the transaction need it. Throws an Error when the bytes are not a
 * transaction.
 */
function messageIn(transaction: Uint8Array): VersionedMessage {
  const message = decoded.get(transaction) ?? VersionedTransaction.deserialize(transaction).message;
  decoded.set(transaction, message);
  return message;
}

/**
 * The blockhash that a transaction of any version was signed with. Throws an Error when the bytes
 * are not a transaction.
 */
export const blockhashOf = (transaction: Uint8Array) => messageIn(transaction).recentBlockhash;

/**
 * Indexes of the instructions in a signed transaction that transfer under this subscription. Throws
 * an Error when the bytes are not a transaction.
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
 * The fee in lamports of a transaction that the keeper signed: signature fee plus priority fee.
 * Throws an Error when the bytes are not a transaction.
 */
export function transactionFee(transaction: Uint8Array): bigint {
  if (isV1(transaction)) return LAMPORTS_PER_SIGNATURE + priorityFeeV1(transaction);
  const message = messageIn(transaction);
  const signatures = BigInt(message.header.numRequiredSignatures) * LAMPORTS_PER_SIGNATURE;
  const budget = message.compiledInstructions.filter(
    ({ programIdIndex }) =>
      message.staticAccountKeys[programIdIndex]?.toBase58() === COMPUTE_BUDGET_PROGRAM,
  );
  // Discriminators of the compute budget program: 2 sets the compute unit limit (u32), 3 sets the
  // compute unit price (u64).
  const field = (discriminator: number) =>
    budget.map(({ data }) => Buffer.from(data)).find((data) => data[0] === discriminator);
  const units = field(2)?.readUInt32LE(1) ?? 0;
  const price = field(3)?.readBigUInt64LE(1) ?? 0n;
  return signatures + (BigInt(units) * price + MICRO - 1n) / MICRO;
}
