// Encodes instructions in the format jsonParsed. Only the instructions that billing's transactions
// use are parsed. Any other instruction is returned unparsed, with its accounts, data and program.
// A validator does the same for a program that it cannot parse.
import bs58 from 'bs58';
import {
  ASSOCIATED_TOKEN_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
} from '../../../chain/program/addresses.ts';
import { addressKey, base58, type Key } from '../keys.ts';
import type { InnerInstruction } from '../vm.ts';
import { tokenAmount } from './encode-account.ts';

const SYSTEM = addressKey(SYSTEM_PROGRAM);
const TOKEN = addressKey(TOKEN_PROGRAM);
const ASSOCIATED_TOKEN = addressKey(ASSOCIATED_TOKEN_PROGRAM);
const MEMO = addressKey(MEMO_PROGRAM);

interface Parsed {
  readonly type: string;
  readonly info: Readonly<Record<string, unknown>>;
}

/**
 * Returns the address of an instruction's account at `index`, or '' when the instruction
 * has fewer accounts.
 */
type AddressAt = (index: number) => string;

const u64 = (data: Buffer, offset: number) =>
  data.length >= offset + 8 ? data.readBigUInt64LE(offset) : undefined;

function parseSystem(data: Buffer, at: AddressAt): Parsed | undefined {
  const amount = u64(data, 4);
  if (amount === undefined) return undefined;
  switch (data.readUInt32LE(0)) {
    case 0:
      if (data.length < 52) return undefined;
      return {
        type: 'createAccount',
        info: {
          source: at(0),
          newAccount: at(1),
          lamports: amount,
          space: u64(data, 12),
          owner: bs58.encode(data.subarray(20, 52)),
        },
      };
    case 2:
      return { type: 'transfer', info: { source: at(0), destination: at(1), lamports: amount } };
    default:
      return undefined;
  }
}

// The number of the extension ImmutableOwner in Token-2022. The associated token program asks the
// token program for the size of a new account, and names only this extension.
const IMMUTABLE_OWNER = 7;
const extensionTypes = (data: Buffer) =>
  data.length === 3 && data.readUInt16LE(1) === IMMUTABLE_OWNER
    ? { extensionTypes: ['immutableOwner'] }
    : {};

function parseToken(data: Buffer, at: AddressAt): Parsed | undefined {
  const amount = u64(data, 1);
  const text = amount?.toString();
  switch (data[0]) {
    case 3:
      return amount === undefined
        ? undefined
        : {
            type: 'transfer',
            info: { source: at(0), destination: at(1), authority: at(2), amount: text },
          };
    case 4:
      return amount === undefined
        ? undefined
        : { type: 'approve', info: { source: at(0), delegate: at(1), owner: at(2), amount: text } };
    case 5:
      return { type: 'revoke', info: { source: at(0), owner: at(1) } };
    case 7:
      return amount === undefined
        ? undefined
        : {
            type: 'mintTo',
            info: { mint: at(0), account: at(1), mintAuthority: at(2), amount: text },
          };
    case 9:
      return { type: 'closeAccount', info: { account: at(0), destination: at(1), owner: at(2) } };
    case 10:
      return {
        type: 'freezeAccount',
        info: { account: at(0), mint: at(1), freezeAuthority: at(2) },
      };
    case 11:
      return { type: 'thawAccount', info: { account: at(0), mint: at(1), freezeAuthority: at(2) } };
    case 12:
      return amount === undefined || data.length < 10
        ? undefined
        : {
            type: 'transferChecked',
            info: {
              source: at(0),
              mint: at(1),
              destination: at(2),
              authority: at(3),
              tokenAmount: tokenAmount(amount, data.readUInt8(9)),
            },
          };
    case 18:
      return data.length < 33
        ? undefined
        : {
            type: 'initializeAccount3',
            info: { account: at(0), mint: at(1), owner: bs58.encode(data.subarray(1, 33)) },
          };
    case 21:
      return { type: 'getAccountDataSize', info: { mint: at(0), ...extensionTypes(data) } };
    case 22:
      return { type: 'initializeImmutableOwner', info: { account: at(0) } };
    default:
      return undefined;
  }
}

function parseAssociatedToken(data: Buffer, at: AddressAt): Parsed | undefined {
  const type =
    data.length === 0 || data[0] === 0 ? 'create' : data[0] === 1 ? 'createIdempotent' : undefined;
  if (type === undefined) return undefined;
  return {
    type,
    info: {
      source: at(0),
      account: at(1),
      wallet: at(2),
      mint: at(3),
      systemProgram: at(4),
      tokenProgram: at(5),
    },
  };
}

const PARSERS: ReadonlyMap<
  Key,
  { program: string; parse: (data: Buffer, at: AddressAt) => Parsed | string | undefined }
> = new Map([
  [SYSTEM, { program: 'system', parse: parseSystem }],
  [TOKEN, { program: 'spl-token', parse: parseToken }],
  [ASSOCIATED_TOKEN, { program: 'spl-associated-token-account', parse: parseAssociatedToken }],
  [MEMO, { program: 'spl-memo', parse: (data: Buffer) => data.toString('utf8') }],
]);

/**
 * Encodes an instruction whose account indexes refer to `keys`. The instruction is parsed if a
 * parser for its program exists in this file.
 */
export function parseInstruction(keys: readonly Key[], instruction: InnerInstruction) {
  const { programIndex, accounts, data, stackHeight } = instruction;
  const program = keys[programIndex] ?? '';
  const addressAt = (index: number) => {
    const key = keys[accounts[index] ?? keys.length];
    return key === undefined ? '' : base58(key);
  };
  const programId = base58(program);
  const parser = PARSERS.get(program);
  const parsed = parser?.parse(data, addressAt);
  if (parser !== undefined && parsed !== undefined)
    return { parsed, program: parser.program, programId, stackHeight };
  return {
    accounts: Array.from(accounts, (_, index) => addressAt(index)),
    data: bs58.encode(data),
    programId,
    stackHeight,
  };
}
