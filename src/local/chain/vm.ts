// Uses LiteSVM through its native layer. LiteSVM's TypeScript wrapper is not used, because it
// encodes every transaction again and needs another version of @solana/kit. The native layer ends
// the process on a malformed transaction, so it gets only transactions that wire/decode.ts has
// decoded.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  Account,
  Clock,
  FailedTransactionMetadata,
  InstructionErrorBorshIo,
  InstructionErrorCustom,
  LiteSvm,
  Rent,
  TransactionErrorDuplicateInstruction,
  TransactionErrorInstructionError,
  TransactionErrorInsufficientFundsForRent,
  type TransactionErrorProgramExecutionTemporarilyRestricted,
  type TransactionMetadata,
} from 'litesvm/dist/internal.js';
import { SUBSCRIPTIONS_PROGRAM } from '../../chain/clusters.ts';
import { OperatorError } from '../../errors.ts';
import { ROOT } from '../../root.ts';
import { addressKey, bytesOf, type Key, keyOf } from './keys.ts';
import {
  INSTRUCTION_ERRORS,
  type InstructionError,
  TRANSACTION_ERRORS,
  type TransactionError,
} from './transaction-error.ts';

/** The state of an account in LiteSVM. `lamports` and `rentEpoch` are u64 values. */
export interface AccountState {
  readonly lamports: bigint;
  readonly owner: Key;
  readonly data: Buffer;
  readonly executable: boolean;
  readonly rentEpoch: bigint;
}

/**
 * An instruction that a program called during the run. Such an instruction is not in the
 * transaction's message.
 */
export interface InnerInstruction {
  readonly programIndex: number;
  readonly accounts: Buffer;
  readonly data: Buffer;
  readonly stackHeight: number;
}

/**
 * The details of a transaction's run. `inner` has one list of inner instructions for each
 * instruction of the message. `units` is the number of compute units used.
 */
export interface Details {
  readonly logs: readonly string[];
  readonly inner: readonly (readonly InnerInstruction[])[];
  readonly returnData: { readonly program: Buffer; readonly data: Buffer } | null;
  readonly units: number;
}

/**
 * The result of running a transaction. `err` is null on success. detailsOf() converts `record`,
 * which is LiteSVM's own object, to Details.
 */
export interface Execution {
  readonly err: TransactionError | null;
  readonly record: TransactionMetadata;
}

/** The result of a simulation. `accounts` has the accounts as the transaction would leave them. */
export interface Simulation extends Execution {
  readonly accounts: ReadonlyMap<Key, AccountState>;
}

/**
 * A LiteSVM without its blockhash check and its transaction history. The local chain checks
 * blockhashes and keeps the history itself.
 */
export interface Vm {
  read(key: Key): AccountState | null;
  /** Replaces an account. A `state` of null removes the account. */
  write(key: Key, state: AccountState | null): void;
  accountsOf(program: Key): Map<Key, AccountState>;
  /** Returns the lamports of an account, or 0 when the account does not exist. */
  lamports(key: Key): bigint;
  /**
   * Runs a decoded transaction and commits its changes. A failed transaction may still have paid
   * its fee.
   */
  execute(transaction: Buffer, verifySignatures: boolean): Execution;
  simulate(transaction: Buffer, verifySignatures: boolean): Simulation;
  /** Sets the chain's clock. `epochStart` and `time` are in seconds since 1970. */
  setClock(clock: { slot: number; epoch: number; epochStart: number; time: number }): void;
  /** Returns the lamports that make an account of `length` bytes exempt from rent. */
  rentExempt(length: number): bigint;
  setRent(lamportsPerByte: number): void;
  snapshot(): Uint8Array;
}

const SUBSCRIPTIONS_BINARY = fileURLToPath(new URL('program/subscriptions.so', ROOT));

function stateOf(account: Account): AccountState {
  const data = account.data();
  return {
    lamports: account.lamports(),
    owner: keyOf(account.owner()),
    // The data is copied into an ArrayBuffer of its own. A pooled Buffer of Node shares its
    // ArrayBuffer with other Buffers, and the native code would read the whole ArrayBuffer.
    data: Buffer.from(data),
    executable: account.executable(),
    rentEpoch: account.rentEpoch(),
  };
}

function instructionErrorOf(error: unknown): InstructionError {
  if (error instanceof InstructionErrorCustom) return { Custom: error.code };
  if (error instanceof InstructionErrorBorshIo) return 'BorshIoError';
  return INSTRUCTION_ERRORS[error as number]?.[0] ?? 'GenericError';
}

function errorOf(failure: FailedTransactionMetadata): TransactionError {
  const error: unknown = failure.err();
  if (typeof error === 'number') return TRANSACTION_ERRORS[error]?.[0] ?? 'SanitizeFailure';
  if (error instanceof TransactionErrorInstructionError)
    return { InstructionError: [error.index, instructionErrorOf(error.err())] };
  if (error instanceof TransactionErrorDuplicateInstruction)
    return { DuplicateInstruction: error.index };
  if (error instanceof TransactionErrorInsufficientFundsForRent)
    return { InsufficientFundsForRent: { account_index: error.accountIndex } };
  const restricted = error as TransactionErrorProgramExecutionTemporarilyRestricted;
  return { ProgramExecutionTemporarilyRestricted: { account_index: restricted.accountIndex } };
}

const outcomeOf = (result: TransactionMetadata | FailedTransactionMetadata): Execution =>
  result instanceof FailedTransactionMetadata
    ? { err: errorOf(result), record: result.meta() }
    : { err: null, record: result };

/**
 * Copies LiteSVM's native record into plain values. The copy takes about 50 us, so callers make it
 * only when they need the values.
 */
export function detailsOf(record: TransactionMetadata): Details {
  const returned = record.returnData();
  const data = Buffer.from(returned.data());
  return {
    logs: record.logs(),
    inner: record.innerInstructions().map((calls) =>
      calls.map((call) => {
        const instruction = call.instruction();
        return {
          programIndex: instruction.programIdIndex(),
          accounts: Buffer.from(instruction.accounts()),
          data: Buffer.from(instruction.data()),
          stackHeight: call.stackHeight(),
        };
      }),
    ),
    returnData: data.length === 0 ? null : { program: Buffer.from(returned.programId()), data },
    units: Number(record.computeUnitsConsumed()),
  };
}

/**
 * Opens a LiteSVM, empty or from a snapshot. The LiteSVM has Solana's own programs (system, SPL
 * Token, Token-2022, associated token account, memo) and the Subscriptions program. Throws an
 * OperatorError when the binary of the Subscriptions program is missing.
 */
export function openVm(snapshot?: Uint8Array): Vm {
  if (!existsSync(SUBSCRIPTIONS_BINARY)) {
    throw new OperatorError(
      'program/subscriptions.so is missing: run npm run build:program (it needs clang-19)',
    );
  }
  const svm = snapshot === undefined ? new LiteSvm() : LiteSvm.fromBytes(snapshot);
  svm.setTransactionHistory(0n);
  svm.setBlockhashCheck(false);
  svm.addProgramFromFile(bytesOf(addressKey(SUBSCRIPTIONS_PROGRAM)), SUBSCRIPTIONS_BINARY);
  return {
    read: (key) => {
      const account = svm.getAccount(bytesOf(key));
      return account === null ? null : stateOf(account);
    },
    write: (key, state) => {
      const account =
        state === null
          ? new Account(0n, new Uint8Array(), new Uint8Array(32), false, 0n)
          : new Account(
              state.lamports,
              state.data,
              bytesOf(state.owner),
              state.executable,
              state.rentEpoch,
            );
      svm.setAccount(bytesOf(key), account);
    },
    accountsOf: (program) =>
      new Map(
        svm
          .getProgramAccounts(bytesOf(program))
          .map((entry) => [keyOf(entry.address), stateOf(entry.account())]),
      ),
    lamports: (key) => svm.getBalance(bytesOf(key)) ?? 0n,
    execute: (transaction, verifySignatures) => {
      svm.setSigverify(verifySignatures);
      return outcomeOf(svm.sendVersionedTransaction(transaction));
    },
    simulate: (transaction, verifySignatures) => {
      svm.setSigverify(verifySignatures);
      const result = svm.simulateVersionedTransaction(transaction);
      if (result instanceof FailedTransactionMetadata)
        return { ...outcomeOf(result), accounts: new Map() };
      const accounts = result
        .postAccounts()
        .map((entry): [Key, AccountState] => [keyOf(entry.address), stateOf(entry.account())]);
      return { err: null, record: result.meta(), accounts: new Map(accounts) };
    },
    setClock: ({ slot, epoch, epochStart, time }) =>
      svm.setClock(
        new Clock(BigInt(slot), BigInt(epochStart), BigInt(epoch), BigInt(epoch + 1), BigInt(time)),
      ),
    // The second argument is the exemption threshold of the rent sysvar. The threshold is 1 since
    // SIMD-0194. The third argument is the burn percentage, which has no effect on this chain.
    setRent: (lamportsPerByte) => svm.setRent(new Rent(BigInt(lamportsPerByte), 1, 50)),
    rentExempt: (length) => svm.minimumBalanceForRentExemption(BigInt(length)),
    snapshot: () => svm.toBytes(),
  };
}
