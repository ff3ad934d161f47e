// Parses RPC responses and checks their shape on arrival. An unexpected shape then counts as a
// fault of the endpoint (`malformed`) and does not cause a TypeError later.
import bs58 from 'bs58';
import type { ChainAccount } from '../program/accounts.ts';
import type { ExecutedInstruction, ExecutedTransaction } from '../program/events.ts';
import {
  EndpointFailure,
  RpcUnreachable,
  UNREADABLE_REASONS,
  type UnreadableReason,
} from './errors.ts';

function malformed(fault: string): never {
  throw new EndpointFailure('malformed', `a response of another shape: ${fault}`);
}

type Json = Readonly<Record<string, unknown>>;

export function object(value: unknown, field: string): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Json)
    : malformed(`${field} is no object`);
}

export function array(value: unknown, field: string): readonly unknown[] {
  return Array.isArray(value) ? value : malformed(`${field} is no array`);
}

export function text(value: unknown, field: string): string {
  return typeof value === 'string' ? value : malformed(`${field} is no string`);
}

export function integer(value: unknown, field: string): number {
  return typeof value === 'number' && Number.isInteger(value)
    ? value
    : malformed(`${field} is no integer`);
}

export function big(value: unknown, field: string): bigint {
  return BigInt(integer(value, field));
}

export function truth(value: unknown, field: string): boolean {
  return typeof value === 'boolean' ? value : malformed(`${field} is neither true nor false`);
}

const orNull = <T>(value: unknown, read: (value: unknown) => T): T | null =>
  value === null || value === undefined ? null : read(value);

/**
 * Returns the error in a response about a transaction, or null for a successful transaction.
 * Without the key `err` the response does not show whether the transaction succeeded, so the
 * response is malformed.
 */
const errorIn = ({ err }: Json): unknown => (err === undefined ? malformed('err is missing') : err);

/**
 * Returns the parsed `value` and the slot of a response of the form `{ context, value }`. Throws an
 * EndpointFailure of kind `behind` when the slot is before `minSlot`.
 */
export function inContext<T>(
  result: unknown,
  minSlot: bigint | undefined,
  read: (value: unknown) => T,
): { slot: bigint; value: T } {
  const { context, value } = object(result, 'result');
  const slot = big(object(context, 'context').slot, 'context.slot');
  if (minSlot !== undefined && slot < minSlot)
    throw new EndpointFailure(
      'behind',
      `at slot ${slot.toString()}, not yet at ${minSlot.toString()}`,
    );
  return { slot, value: read(value) };
}

/** Decodes instruction data of the encoding "json", which is Base58. */
function base58(value: unknown): Buffer {
  const bytes = bs58.decodeUnsafe(text(value, 'instruction data'));
  return bytes === undefined ? malformed('instruction data is not Base58') : Buffer.from(bytes);
}

/** Decodes account data of the encoding base64: `[text, "base64"]`. */
function accountData(value: unknown): Buffer {
  const [encoded, encoding] = array(value, 'account data');
  if (encoding !== 'base64') malformed('account data is not base64');
  return Buffer.from(text(encoded, 'account data'), 'base64');
}

export function account(value: unknown): ChainAccount {
  const { owner, lamports, data } = object(value, 'account');
  return {
    owner: text(owner, 'account owner'),
    lamports: big(lamports, 'lamports'),
    data: accountData(data),
  };
}

export function programAccounts(value: unknown): { address: string; account: ChainAccount }[] {
  return array(value, 'accounts').map((one) => {
    const { pubkey, account: found } = object(one, 'program account');
    return { address: text(pubkey, 'pubkey'), account: account(found) };
  });
}

export function accounts(value: unknown, count: number): (ChainAccount | null)[] {
  const list = array(value, 'accounts');
  if (list.length !== count) malformed(`${list.length} accounts instead of ${count}`);
  return list.map((one) => orNull(one, account));
}

export type Commitment = 'processed' | 'confirmed' | 'finalized';

/** The status of a transaction. `err` is null when the transaction succeeded. */
export interface SignatureStatus {
  readonly slot: bigint;
  readonly err: unknown;
  readonly commitment: Commitment;
  /**
   * Set if several endpoints are configured and only one reports a final failure. The commitment is
   * then `processed`, and the transaction may still land.
   */
  readonly isDoubted?: true;
}

function commitment(value: unknown): Commitment {
  return value === 'processed' || value === 'confirmed' || value === 'finalized'
    ? value
    : malformed('no commitment');
}

/**
 * Returns the commitment in a transaction status. Some nodes omit the commitment. Then the field
 * `confirmations` decides: null means finalized, and a number counts as processed. A status that
 * lacks both fields is malformed.
 */
function commitmentOf({ confirmations, confirmationStatus }: Json): Commitment {
  const stated = orNull(confirmationStatus, commitment);
  if (stated !== null) return stated;
  if (confirmations === null) return 'finalized';
  integer(confirmations, 'confirmations');
  return 'processed';
}

export function statuses(value: unknown, count: number): (SignatureStatus | null)[] {
  const list = array(value, 'statuses');
  if (list.length !== count) malformed(`${list.length} statuses instead of ${count}`);
  return list.map((one) =>
    orNull(one, (found) => {
      const status = object(found, 'status');
      return {
        slot: big(status.slot, 'slot'),
        err: errorIn(status),
        commitment: commitmentOf(status),
      };
    }),
  );
}

/**
 * An entry of getSignaturesForAddress, which lists the transactions of an address, newest first.
 */
export interface SignatureInfo {
  readonly signature: string;
  readonly slot: bigint;
  readonly err: unknown;
  readonly blockTime: bigint | null;
}

export function signatureInfos(value: unknown): SignatureInfo[] {
  return array(value, 'signatures').map((one) => {
    const info = object(one, 'signature');
    const { signature, slot, blockTime } = info;
    return {
      signature: text(signature, 'signature'),
      slot: big(slot, 'slot'),
      err: errorIn(info),
      blockTime: orNull(blockTime, (time) => big(time, 'blockTime')),
    };
  });
}

/** A transaction on chain with its effects. `fee` is lamports, `blockTime` is Unix seconds. */
export interface ConfirmedTransaction extends ExecutedTransaction {
  readonly signature: string;
  /** The blockhash that the transaction names; null if the endpoint does not report it. */
  readonly blockhash: string | null;
  readonly slot: bigint;
  readonly blockTime: bigint | null;
  readonly fee: bigint;
  readonly logs: readonly string[] | null;
}

/**
 * A transaction that no endpoint returned in a readable form. It may be on chain, so it must not be
 * treated as absent.
 */
export interface UnreadableTransaction {
  readonly signature: string;
  readonly unreadable: UnreadableReason;
}

export type FoundTransaction = ConfirmedTransaction | UnreadableTransaction;

/**
 * Parses one endpoint's response to getTransaction. Throws an EndpointFailure with an
 * UnreadableReason.
 */
export function readableTransaction(result: unknown): ConfirmedTransaction {
  if (result === null) throw new EndpointFailure('missing', 'it does not have the transaction');
  try {
    return confirmedTransaction(result);
  } catch (error) {
    if (!(error instanceof EndpointFailure)) throw error;
    throw new EndpointFailure('undecodable', error.message, { cause: error });
  }
}

/**
 * Returns an UnreadableTransaction if an endpoint responded. If no endpoint was reached, throws
 * `error`.
 */
export function unreadableTransaction(signature: string, error: unknown): UnreadableTransaction {
  if (error instanceof RpcUnreachable) {
    const unreadable = UNREADABLE_REASONS.find((reason) =>
      error.failures.some(({ fault }) => fault === reason),
    );
    if (unreadable !== undefined) return { signature, unreadable };
  }
  throw error;
}

/**
 * Parses a transaction of any version in the encoding "json". Throws an EndpointFailure for a
 * response of an unexpected shape.
 */
export function confirmedTransaction(result: unknown): ConfirmedTransaction {
  const { slot, blockTime, transaction, meta } = object(result, 'transaction');
  const { signatures, message } = object(transaction, 'transaction.transaction');
  const { accountKeys, instructions, recentBlockhash } = object(message, 'message');
  const effects = object(meta, 'meta');
  const { fee, logMessages, innerInstructions, loadedAddresses } = effects;
  const err = errorIn(effects);

  const loaded = orNull(loadedAddresses, (value) => object(value, 'loadedAddresses'));
  // An account index in a versioned transaction is a position in this list: first the transaction's
  // own keys, then the writable keys from lookup tables, then the read-only keys from lookup
  // tables.
  const keys = [accountKeys, loaded?.writable ?? [], loaded?.readonly ?? []].flatMap((part) =>
    array(part, 'account keys').map((key) => text(key, 'account key')),
  );
  const key = (index: unknown) =>
    keys[integer(index, 'account index')] ?? malformed('an account index out of range');
  const executed = (value: unknown, outer: boolean): ExecutedInstruction => {
    const { programIdIndex, accounts: indexes, data, stackHeight } = object(value, 'instruction');
    return {
      programId: key(programIdIndex),
      accounts: array(indexes, 'instruction accounts').map(key),
      data: base58(data),
      stackHeight: outer ? 1 : orNull(stackHeight, (height) => integer(height, 'stackHeight')),
    };
  };
  // A failed transaction may lack inner instructions, because it may have executed nothing. A
  // successful transaction must have inner instructions, because the transaction's pulls are read
  // from them.
  const groups = err === null ? innerInstructions : (innerInstructions ?? []);
  const inner = array(groups, 'innerInstructions').map((group) => {
    const { index, instructions: calls } = object(group, 'inner instructions');
    return [
      integer(index, 'index'),
      array(calls, 'inner instructions').map((call) => executed(call, false)),
    ] as const;
  });
  return {
    signature: text(array(signatures, 'signatures')[0], 'signature'),
    blockhash: orNull(recentBlockhash, (value) => text(value, 'recentBlockhash')),
    slot: big(slot, 'slot'),
    blockTime: orNull(blockTime, (time) => big(time, 'blockTime')),
    err,
    fee: big(fee, 'fee'),
    logs: orNull(logMessages, (logs) => array(logs, 'logs').map((line) => text(line, 'log'))),
    instructions: array(instructions, 'instructions').map((one) => executed(one, true)),
    inner: new Map(inner),
  };
}

/**
 * The result of a simulation. `unitsConsumed` is compute units. `loadedDataBytes` is null when the
 * endpoint does not report it.
 */
export interface Simulation {
  readonly err: unknown;
  readonly logs: readonly string[];
  readonly unitsConsumed: bigint | null;
  readonly loadedDataBytes: bigint | null;
}

export function simulation(value: unknown): Simulation {
  const result = object(value, 'simulation');
  const { logs, unitsConsumed, loadedAccountsDataSize } = result;
  return {
    err: errorIn(result),
    logs: (orNull(logs, (lines) => array(lines, 'logs')) ?? []).map((line) => text(line, 'log')),
    unitsConsumed: orNull(unitsConsumed, (units) => big(units, 'unitsConsumed')),
    loadedDataBytes: orNull(loadedAccountsDataSize, (size) => big(size, 'loadedAccountsDataSize')),
  };
}

/** Returns the oldest slot of several responses; 0 for an empty list. */
export const oldestSlot = (responses: readonly { slot: bigint }[]): bigint =>
  responses.reduce((oldest, { slot }) => (slot < oldest ? slot : oldest), responses[0]?.slot ?? 0n);

/** Returns the newest of these slots; 0 for an empty list. */
export const newestSlot = (slots: readonly bigint[]): bigint =>
  slots.reduce((newest, slot) => (slot > newest ? slot : newest), 0n);
