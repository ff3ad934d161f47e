// Builds the keeper's payment transactions. A payment consists of a transfer of the net amount to
// the merchant and a transfer of the fee to the treasury. Each transaction has one memo.
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
import { LAMPORTS_PER_SIGNATURE, MICRO } from './network-fee.ts';
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
  loadedDataLimit,
  memo,
} from './system-instructions.ts';

/**
 * The accounts and the amounts (base units) of one payment. A payment has no transfer for an amount
 * of 0.
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

/**
 * Builds the transfer instructions of a payment. Throws a RangeError when the net amount and the
 * fee are both 0.
 */
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
 * Number of entries that one transfer adds to the runtime's instruction trace. The entries are the
 * transfer, its call of the token program, and the call with which the program emits the event.
 */
const TRACE_ENTRIES = 3;

/**
 * Builds the part of a transaction that makes one payment. `costs` has the compute units and the
 * loaded bytes that the payment may use.
 */
export function paymentPart(
  collection: Collection,
  costs: Pick<Part, 'computeUnits' | 'loadedDataBytes'>,
): Part {
  const instructions = transfersOf(collection);
  return { instructions, traceEntries: TRACE_ENTRIES * instructions.length, ...costs };
}

/**
 * Builds a memo that makes a transaction differ from other transactions with the same payments and
 * blockhash. Everyone can read a memo, so the memo contains a hash of `reference` instead of
 * `reference` itself.
 */
const memoOf = (reference: string) =>
  memo(`billing ${createHash('sha256').update(reference).digest('hex').slice(0, 32)}`);

/**
 * Builds the compute budget instructions that precede the payments. A version 1 transaction needs
 * no such instructions, because its header contains the limits and the priority fee.
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
 * Builds a transaction without payments. `loadedDataBytes` is the size in bytes of the accounts
 * that every payment loads: the programs and the mint.
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
 * Packs payments, in the given order, into as few transactions as possible. A payment marked
 * `needsOwnTransaction` gets a transaction of its own.
 */
export function packPayments<
  T extends { readonly part: Part; readonly needsOwnTransaction: boolean },
>(
  payments: readonly T[],
  shared: { version: TransactionVersion; keeper: string; loadedDataBytes: number },
): T[][] {
  const { version, keeper, loadedDataBytes } = shared;
  const empty = withoutPayments(version, keeper, loadedDataBytes);
  const packs: T[][] = payments
    .filter(({ needsOwnTransaction: alone }) => alone)
    .map((one) => [one]);
  let contents: Contents | null = null;
  let pack: T[] = [];
  for (const one of payments) {
    if (one.needsOwnTransaction) continue;
    const bigger: Contents | null = contents === null ? null : add(contents, one.part);
    if (bigger === null) packs.push((pack = []));
    pack.push(one);
    contents = bigger ?? add(empty, one.part);
  }
  return packs;
}

/**
 * Signs a transaction with the transfer instructions `transfers`. Throws a RangeError when the
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
 * Decodes the message of a signed transaction. The result is cached, because decoding takes 0.3 ms
 * and each payment of the transaction needs the message. Throws an Error when the bytes are not a
 * transaction.
 */
function messageIn(transaction: Uint8Array): VersionedMessage {
  const message = decoded.get(transaction) ?? VersionedTransaction.deserialize(transaction).message;
  decoded.set(transaction, message);
  return message;
}

/**
 * Returns the blockhash that a transaction of any version was signed with. Throws an Error when the
 * bytes are not a transaction.
 */
export const blockhashOf = (transaction: Uint8Array) => messageIn(transaction).recentBlockhash;

/**
 * Returns the indexes of the instructions in a signed transaction that are transfers of this
 * subscription. Throws an Error when the bytes are not a transaction.
 */
export function transferPlaces(
  transaction: Uint8Array,
  programId: string,
  subscription: string,
): number[] {
  const { staticAccountKeys: keys, compiledInstructions } = messageIn(transaction);
  const [program, account] = [publicKey(programId), publicKey(subscription)];
  return compiledInstructions.flatMap(({ programIdIndex, accountKeyIndexes, data }, index) =>
    isTransfer(data) &&
    keys[programIdIndex]?.equals(program) === true &&
    keys[accountKeyIndexes[0] ?? -1]?.equals(account) === true
      ? [index]
      : [],
  );
}

/**
 * Returns the network fee in lamports of a transaction that the keeper signed: signature fee plus
 * priority fee. Throws an Error when the bytes are not a transaction.
 */
export function transactionFee(transaction: Uint8Array): bigint {
  if (isV1(transaction)) return LAMPORTS_PER_SIGNATURE + priorityFeeV1(transaction);
  const message = messageIn(transaction);
  const signatureFee = BigInt(message.header.numRequiredSignatures) * LAMPORTS_PER_SIGNATURE;
  const budget = message.compiledInstructions.filter(
    ({ programIdIndex }) =>
      message.staticAccountKeys[programIdIndex]?.toBase58() === COMPUTE_BUDGET_PROGRAM,
  );
  // The first data byte of a compute budget instruction is its kind: 2 sets the compute unit limit
  // (u32), 3 sets the compute unit price (u64).
  const field = (discriminator: number) =>
    budget.map(({ data }) => Buffer.from(data)).find((data) => data[0] === discriminator);
  const units = field(2)?.readUInt32LE(1) ?? 0;
  const price = field(3)?.readBigUInt64LE(1) ?? 0n;
  return signatureFee + (BigInt(units) * price + MICRO - 1n) / MICRO;
}
