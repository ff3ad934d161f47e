// Encodes transactions in the form of JSON-RPC responses.
import bs58 from 'bs58';
import { base58, type Key } from '../keys.ts';
import type { Payload, TokenChange } from '../state.ts';
import type { TransactionError } from '../transaction-error.ts';
import { type Details, detailsOf, type InnerInstruction } from '../vm.ts';
import {
  accountsOf,
  dataOf,
  isWritable,
  signaturesOf,
  type WireMessage,
  type WireTransaction,
} from '../wire/message.ts';
import { tokenAmount } from './encode-account.ts';
import { parseInstruction } from './parse-instruction.ts';
import { RpcError } from './rpc-error.ts';

/** The encodings that a getTransaction request can ask for. */
export const TRANSACTION_ENCODINGS = ['json', 'jsonParsed', 'base58', 'base64'] as const;
export type TransactionEncoding = (typeof TRANSACTION_ENCODINGS)[number];

/**
 * Returns the record of a transaction's run: logs, inner instructions, return data, compute units.
 * The first call copies the record from LiteSVM into `payload`. Later calls return this copy.
 */
function runDetails(payload: Payload): Details {
  if (!('units' in payload.details)) payload.details = detailsOf(payload.details);
  return payload.details;
}

/**
 * Returns the logs of a transaction's run. Copying only the logs from LiteSVM takes a fifth of the
 * time that a copy of the whole record takes.
 */
export function runLogs({ details }: Payload): readonly string[] {
  return 'units' in details ? details.logs : details.logs();
}

/** Encodes a transaction's result as the field `status`. */
export const okOrErr = (err: TransactionError | null) =>
  err === null ? { Ok: null } : { Err: err };

const compiled = ({ programIndex, accounts, data, stackHeight }: InnerInstruction) => ({
  accounts: [...accounts],
  data: bs58.encode(data),
  programIdIndex: programIndex,
  stackHeight,
});

const instructionForm =
  (keys: readonly Key[], encoding: TransactionEncoding) => (called: InnerInstruction) =>
    encoding === 'jsonParsed' ? parseInstruction(keys, called) : compiled(called);

/**
 * Encodes the inner instructions of a transaction, grouped by the top-level instruction that called
 * them.
 */
export function innerInstructions(
  inner: Details['inner'],
  keys: readonly Key[],
  encoding: TransactionEncoding,
) {
  const form = instructionForm(keys, encoding);
  return inner
    .map((calls: readonly InnerInstruction[], index) => ({ index, instructions: calls.map(form) }))
    .filter(({ instructions }) => instructions.length > 0);
}

/** Encodes the data that a program returned. Returns null when no program returned data. */
export const returnData = ({ returnData: returned }: Details) =>
  returned === null
    ? null
    : {
        programId: bs58.encode(returned.program),
        data: [returned.data.toString('base64'), 'base64'],
      };

/**
 * Encodes the token balances of a transaction: preTokenBalances for the side 'before',
 * postTokenBalances for the side 'after'.
 */
export function tokenBalances(tokens: readonly TokenChange[], side: 'before' | 'after') {
  return tokens.flatMap(({ index, mint, owner, program, decimals, [side]: amount }) =>
    amount === null
      ? []
      : [
          {
            accountIndex: index,
            mint: base58(mint),
            owner: base58(owner),
            programId: base58(program),
            uiTokenAmount: tokenAmount(amount, decimals),
          },
        ],
  );
}

/** Encodes the addresses that a transaction took from lookup tables. */
export const loadedAddresses = ({ writable, readonly }: Payload['loaded']) => ({
  readonly: readonly.map(base58),
  writable: writable.map(base58),
});

const tableLookups = ({ lookups }: WireMessage) =>
  lookups.map(({ table, writable, readonly }) => ({
    accountKey: base58(table),
    writableIndexes: [...writable],
    readonlyIndexes: [...readonly],
  }));

function annotatedKeys(message: WireMessage, loaded: Payload['loaded']) {
  const fixed = message.keys.map((key, index) => ({
    pubkey: base58(key),
    signer: index < message.requiredSignatures,
    source: 'transaction',
    writable: isWritable(message, index),
  }));
  const fromTable = (writable: boolean) => (key: Key) => ({
    pubkey: base58(key),
    signer: false,
    source: 'lookupTable',
    writable,
  });
  return [
    ...fixed,
    ...loaded.writable.map(fromTable(true)),
    ...loaded.readonly.map(fromTable(false)),
  ];
}

function jsonMessage(
  message: WireMessage,
  payload: Payload,
  keys: readonly Key[],
  encoding: TransactionEncoding,
) {
  const { requiredSignatures, readonlySigned, readonlyUnsigned, instructions, version, config } =
    message;
  const form = instructionForm(keys, encoding);
  const common = {
    instructions: instructions.map((instruction) =>
      form({
        programIndex: instruction.programIndex,
        accounts: accountsOf(message, instruction),
        data: dataOf(message, instruction),
        stackHeight: 1,
      }),
    ),
    recentBlockhash: base58(message.blockhash),
    ...(version === 0 ? { addressTableLookups: tableLookups(message) } : {}),
    ...(config === null ? {} : { transactionConfig: config }),
  };
  if (encoding === 'jsonParsed')
    return { accountKeys: annotatedKeys(message, payload.loaded), ...common };
  return {
    accountKeys: message.keys.map(base58),
    header: {
      numReadonlySignedAccounts: readonlySigned,
      numReadonlyUnsignedAccounts: readonlyUnsigned,
      numRequiredSignatures: requiredSignatures,
    },
    ...common,
  };
}

/**
 * Throws -32015 when the version of the transaction is above `maxSupported`, the newest version
 * that the client supports. Without `maxSupported` only legacy transactions pass.
 */
export function checkVersion({ version }: WireMessage, maxSupported: number | undefined): void {
  if (version === 'legacy' || (maxSupported !== undefined && version <= maxSupported)) return;
  throw new RpcError(
    -32015,
    `Transaction version (${version}) is not supported by the requesting client. Please try the request again with the following configuration parameter: "maxSupportedTransactionVersion": ${version}`,
  );
}

/** Encodes the field `transaction` in the response of getTransaction. */
export function encodeTransaction(
  transaction: WireTransaction,
  payload: Payload,
  keys: readonly Key[],
  encoding: TransactionEncoding,
) {
  if (encoding === 'base64') return [transaction.bytes.toString('base64'), 'base64'];
  if (encoding === 'base58') return [bs58.encode(transaction.bytes), 'base58'];
  return {
    message: jsonMessage(transaction.message, payload, keys, encoding),
    signatures: signaturesOf(transaction).map((signature) => bs58.encode(signature)),
  };
}

/** Encodes the field `meta` in the response of getTransaction. */
export function encodeMeta(
  err: TransactionError | null,
  payload: Payload,
  keys: readonly Key[],
  encoding: TransactionEncoding,
) {
  const details = runDetails(payload);
  const returned = returnData(details);
  return {
    computeUnitsConsumed: details.units,
    err,
    fee: payload.fee,
    innerInstructions: innerInstructions(details.inner, keys, encoding),
    ...(encoding === 'jsonParsed' ? {} : { loadedAddresses: loadedAddresses(payload.loaded) }),
    logMessages: details.logs,
    postBalances: payload.after,
    postTokenBalances: tokenBalances(payload.tokens, 'after'),
    preBalances: payload.before,
    preTokenBalances: tokenBalances(payload.tokens, 'before'),
    rewards: [],
    ...(returned === null ? {} : { returnData: returned }),
    status: okOrErr(err),
  };
}
