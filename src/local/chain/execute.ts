// Runs transactions in the block being built.
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../chain/program/addresses.ts';
import { accountAt, current, head, noteChange } from './accounts.ts';
import { blockOfHash, produceBlock } from './blocks.ts';
import { offerOf } from './fee.ts';
import { addressKey, type Key } from './keys.ts';
import { type Chain, type Landed, type TokenChange, TRANSACTIONS_PER_BLOCK } from './state.ts';
import type { TransactionError } from './transaction-error.ts';
import type { AccountState, Execution } from './vm.ts';
import {
  isWritable,
  type TableLookup,
  type WireMessage,
  type WireTransaction,
} from './wire/message.ts';

const SYSTEM = addressKey(SYSTEM_PROGRAM);
const LOOKUP_TABLE_PROGRAM = addressKey('AddressLookupTab1e1111111111111111111111111');
const LOOKUP_TABLE_HEADER = 56;
export const TOKEN_PROGRAMS: ReadonlySet<Key> = new Set([
  addressKey(TOKEN_PROGRAM),
  addressKey('TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'),
]);
export const TOKEN_ACCOUNT_LENGTH = 165;
const TOKEN_2022_ACCOUNT_TYPE = 2;
const MINT_LENGTH = 82;

/** Returns whether an account is an initialized token account of SPL Token or Token-2022. */
export function isTokenAccount(state: AccountState | null): state is AccountState {
  if (
    state === null ||
    !TOKEN_PROGRAMS.has(state.owner) ||
    state.data.length < TOKEN_ACCOUNT_LENGTH
  )
    return false;
  // Byte 108 of a token account is its state, which is 0 before initialization. In a Token-2022
  // account with extensions, the byte after the base layout is the type of the account.
  return (
    state.data[108] !== 0 &&
    (state.data.length === TOKEN_ACCOUNT_LENGTH ||
      state.data[TOKEN_ACCOUNT_LENGTH] === TOKEN_2022_ACCOUNT_TYPE)
  );
}

/** Returns whether an account is a mint of SPL Token or Token-2022. */
export function isMint(state: AccountState | null): state is AccountState {
  if (state === null || !TOKEN_PROGRAMS.has(state.owner)) return false;
  return (
    state.data.length === MINT_LENGTH ||
    (state.data.length > TOKEN_ACCOUNT_LENGTH && state.data[TOKEN_ACCOUNT_LENGTH] === 1)
  );
}

/**
 * The reason why a transaction is in no block. `record` is LiteSVM's record of the run, or null
 * when the transaction did not run.
 */
export interface Refusal {
  readonly refused: TransactionError;
  readonly record: Execution['record'] | null;
}

/**
 * All account keys of a transaction. `keys` has the static keys first, then the writable and then
 * the read-only keys from lookup tables.
 */
export interface LoadedKeys {
  readonly keys: readonly Key[];
  readonly loaded: { readonly writable: readonly Key[]; readonly readonly: readonly Key[] };
}

const NO_LOOKUPS = { writable: [], readonly: [] };

function lookUp(chain: Chain, { table }: TableLookup, indexes: Buffer, height: number): Key[] {
  const state = accountAt(chain, table, height);
  if (state?.owner !== LOOKUP_TABLE_PROGRAM) return [];
  return Array.from(indexes, (index) => {
    const start = LOOKUP_TABLE_HEADER + index * 32;
    return state.data.toString('latin1', start, start + 32);
  });
}

/**
 * Returns the keys of a transaction, including those from lookup tables. A missing lookup table
 * adds no keys, and LiteSVM then refuses the transaction.
 */
export function loadKeys(
  chain: Chain,
  { message: { keys, lookups } }: WireTransaction,
): LoadedKeys {
  if (lookups.length === 0) return { keys, loaded: NO_LOOKUPS };
  const { height } = head(chain);
  const writable = lookups.flatMap((lookup) => lookUp(chain, lookup, lookup.writable, height));
  const readonly = lookups.flatMap((lookup) => lookUp(chain, lookup, lookup.readonly, height));
  return { keys: [...keys, ...writable, ...readonly], loaded: { writable, readonly } };
}

/**
 * Returns the token balances of an account before and after a transaction. Returns null when the
 * account was a token account neither before nor after the transaction.
 */
export function tokenChange(
  chain: Chain,
  index: number,
  was: AccountState | null,
  is: AccountState | null,
): TokenChange | null {
  const [before, after] = [isTokenAccount(was) ? was : null, isTokenAccount(is) ? is : null];
  const token = after ?? before;
  if (token === null) return null;
  const mint = token.data.toString('latin1', 0, 32);
  return {
    index,
    mint,
    owner: token.data.toString('latin1', 32, 64),
    program: token.owner,
    decimals: current(chain, mint)?.data[44] ?? 0,
    before: before?.data.readBigUInt64LE(64) ?? null,
    after: after?.data.readBigUInt64LE(64) ?? null,
  };
}

const lamportsOf = (state: AccountState | null) => state?.lamports ?? 0n;

/** Returns whether the blockhash of a transaction is valid in the block at `height`. */
export function hasLiveBlockhash(
  chain: Chain,
  transaction: WireTransaction,
  height: number,
): boolean {
  return blockOfHash(chain, transaction.message.blockhash, height) !== undefined;
}

/**
 * Runs a transaction in the block being built. A failed transaction is in the block too and pays
 * its fee. If `undoFailure` is set (preflight), a failed transaction is refused and changes
 * nothing. A transaction with a wrong signature, or whose payer lacks the SOL for the fee, is
 * always refused. If `verified` is set, the signatures are not checked, because they are known to
 * be valid.
 */
export function execute(
  chain: Chain,
  transaction: WireTransaction,
  undoFailure: boolean,
  verified = false,
): Landed | Refusal {
  const { slot, height } = head(chain);
  if (chain.byId.has(transaction.id)) return { refused: 'AlreadyProcessed', record: null };
  if (!hasLiveBlockhash(chain, transaction, height))
    return { refused: 'BlockhashNotFound', record: null };
  const { keys, loaded } = loadKeys(chain, transaction);
  const states: (AccountState | null | undefined)[] = [];
  const before: bigint[] = [];
  for (const key of keys) {
    const state = stateBefore(chain, key);
    states.push(state);
    before.push(state === undefined ? chain.vm.lamports(key) : lamportsOf(state));
  }
  const [payer] = keys;
  const { err, record } = chain.vm.execute(transaction.bytes, !verified);
  if (err !== null && payer !== undefined) {
    // When a transaction fails, LiteSVM undoes everything except the payment of the fee. If the
    // payer could not pay the fee, the transaction is refused.
    const charged = chain.vm.lamports(payer) < (before[0] ?? 0n);
    if (charged && undoFailure) refund(chain, payer, before[0] ?? 0n);
    if (!charged || undoFailure) return { refused: err, record };
  }
  const { price, fee } = offerOf(transaction.message);
  const after = recordChanges(
    chain,
    transaction.message,
    { keys, loaded },
    states,
    before,
    err === null,
  );
  const landed: Landed = {
    id: transaction.id,
    slot,
    height,
    err,
    price,
    payload: {
      bytes: transaction.bytes,
      fee,
      loaded,
      before,
      after: after.lamports,
      tokens: after.tokens,
      details: record,
    },
  };
  land(chain, landed, after.changed);
  return landed;
}

/**
 * Returns the state of an account before a transaction runs. Returns undefined if an earlier
 * transaction of this block changed the account and nothing has read the account since. The state
 * is not read from LiteSVM in this case, because a read takes 7 us and the state may never be
 * needed.
 */
function stateBefore(chain: Chain, key: Key): AccountState | null | undefined {
  const hot = chain.hot.get(key);
  if (hot !== undefined) return hot;
  return chain.hot.has(key) && head(chain).undo.has(key) ? undefined : current(chain, key);
}

function refund(chain: Chain, payer: Key, lamports: bigint): void {
  const charged = chain.vm.read(payer);
  if (charged !== null) chain.vm.write(payer, { ...charged, lamports });
}

/**
 * Records every writable account of a transaction as changed, as a validator does. The new state of
 * an account is read here only if it may be a token account: the account was missing, belonged to a
 * token program, or was a wallet other than the payer. Other states are read on demand.
 */
function recordChanges(
  chain: Chain,
  message: WireMessage,
  { keys, loaded }: LoadedKeys,
  states: readonly (AccountState | null | undefined)[],
  before: readonly bigint[],
  succeeded: boolean,
) {
  const lamports: bigint[] = [];
  const tokens: TokenChange[] = [];
  const changed: Key[] = [];
  const fixed = message.keys.length;
  for (let index = 0; index < keys.length; index += 1) {
    const key = keys[index] ?? '';
    const was = states[index];
    const written = succeeded
      ? index < fixed
        ? isWritable(message, index)
        : index < fixed + loaded.writable.length
      : index === 0;
    if (!written) {
      lamports.push(before[index] ?? 0n);
      const token = was === undefined ? null : tokenChange(chain, index, was, was);
      if (token !== null) tokens.push(token);
      continue;
    }
    changed.push(key);
    if (
      was === undefined ||
      (was !== null && was.owner !== SYSTEM && !TOKEN_PROGRAMS.has(was.owner)) ||
      index === 0
    ) {
      lamports.push(chain.vm.lamports(key));
      noteChange(chain, key, was ?? null, undefined);
      continue;
    }
    const is = chain.vm.read(key);
    lamports.push(lamportsOf(is));
    noteChange(chain, key, was, is);
    const token = tokenChange(chain, index, was, is);
    if (token !== null) tokens.push(token);
  }
  return { lamports, tokens, changed };
}

function land(chain: Chain, landed: Landed, changed: readonly Key[]): void {
  chain.landed.push(landed);
  chain.byId.set(landed.id, landed);
  chain.transactionCount += 1;
  const { transactions } = head(chain);
  transactions.push(landed);
  chain.events.emit('changed', changed, landed);
  if (transactions.length >= TRANSACTIONS_PER_BLOCK) produceBlock(chain);
}
