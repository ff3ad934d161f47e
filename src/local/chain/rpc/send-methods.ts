// The RPC methods that send and simulate transactions.
import bs58 from 'bs58';
import { accountAt, current, head } from '../accounts.ts';
import { takesV1 } from '../cluster-settings.ts';
import { hasLiveBlockhash, loadKeys, type Refusal, tokenChange } from '../execute.ts';
import { airdrop } from '../faucet.ts';
import { offerOf } from '../fee.ts';
import { base58 } from '../keys.ts';
import { BLOCKHASH_AGE, type Chain } from '../state.ts';
import { submit } from '../submit.ts';
import { errorText, type TransactionError } from '../transaction-error.ts';
import { type Details, detailsOf, type Simulation } from '../vm.ts';
import { decodeTransaction, isV1 } from '../wire/decode.ts';
import type { WireTransaction } from '../wire/message.ts';
import { WireError } from '../wire/reader.ts';
import { verifiedTransactions } from '../wire/verify.ts';
import { MAX_V1_LENGTH } from '../wire/version-1.ts';
import { accountEncoding, encodeAccount } from './encode-account.ts';
import {
  innerInstructions,
  loadedAddresses,
  returnData,
  tokenBalances,
} from './encode-transaction.ts';
import {
  choice,
  flag,
  type LocalEndpoint,
  publicKey,
  required,
  settings,
  type Settings,
  u64,
  viewAt,
  viewOf,
} from './params.ts';
import { internalError, invalidParams, RpcError } from './rpc-error.ts';

const WIRE_TYPE = 'solana_transaction::versioned::VersionedTransaction';
// Maximum number of characters of an encoded transaction: the encoded length of MAX_V1_LENGTH
// bytes.
const MAX_LENGTH = { base58: 5_594, base64: 5_464 };
const NOT_RUN: Details = { logs: [], inner: [], returnData: null, units: 0 };

function decode(chain: Chain, text: unknown, encoding: 'base58' | 'base64'): WireTransaction {
  if (typeof text !== 'string')
    throw invalidParams('Invalid params: invalid type, expected a string');
  const max = MAX_LENGTH[encoding];
  if (text.length > max) {
    throw invalidParams(
      `${encoding} encoded ${WIRE_TYPE} too large: ${text.length} bytes (max: encoded/raw ${max}/${MAX_V1_LENGTH})`,
    );
  }
  const bytes = encoding === 'base64' ? Buffer.from(text, 'base64') : bs58.decodeUnsafe(text);
  // Node's Base64 decoder does not throw for invalid characters, but skips them. If the decoder
  // skipped a character, it returned fewer bytes than a valid text of this length encodes.
  if (
    bytes === undefined ||
    (encoding === 'base64' && bytes.length < Math.floor((text.replace(/=+$/, '').length * 3) / 4))
  ) {
    throw invalidParams(`invalid ${encoding} encoding`);
  }
  try {
    const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return decodeTransaction(buffer, isV1(buffer) && takesV1(chain));
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    throw invalidParams(`failed to deserialize ${WIRE_TYPE}: ${error.message}`);
  }
}

const encodingOf = (from: Settings) =>
  choice(from['encoding'], 'encoding', ['base58', 'base64'] as const, 'base58');

function preflightFailure({ refused, record }: Refusal): RpcError {
  if (refused === 'SignatureFailure')
    return new RpcError(-32003, 'Transaction signature verification failure');
  const details = record === null ? NOT_RUN : detailsOf(record);
  return new RpcError(-32002, `Transaction simulation failed: ${errorText(refused)}`, {
    accounts: null,
    err: refused,
    innerInstructions: null,
    logs: details.logs,
    returnData: returnData(details),
    unitsConsumed: details.units,
  });
}

// Transactions whose signatures verifyAhead() found valid. The map's key is the array `params` of
// the sendTransaction request.
const verified = new WeakMap<readonly unknown[], WireTransaction>();

// Minimum size of a batch whose signatures another thread verifies. For a smaller batch the thread
// saves no time, so LiteSVM verifies the signatures when it runs the transactions.
const VERIFIED_TOGETHER = 4;

/**
 * Verifies the signatures of many sendTransaction requests before the requests run. `requests` has
 * the parameters of each request. A malformed request is skipped here, and gets its error when it
 * runs.
 */
export async function verifyAhead(
  chain: Chain,
  requests: readonly (readonly unknown[])[],
): Promise<void> {
  if (requests.length < VERIFIED_TOGETHER) return;
  const byTransaction = new Map<WireTransaction, readonly unknown[]>();
  for (const params of requests) {
    try {
      byTransaction.set(
        decode(chain, required(params, 0), encodingOf(settings(params, 1))),
        params,
      );
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
    }
  }
  for (const transaction of await verifiedTransactions([...byTransaction.keys()]))
    verified.set(byTransaction.get(transaction) ?? [], transaction);
}

function sendTransaction(params: readonly unknown[], endpoint: LocalEndpoint) {
  const from = settings(params, 1);
  const ready = verified.get(params);
  const transaction = ready ?? decode(endpoint.chain, required(params, 0), encodingOf(from));
  const skipPreflight = flag(from['skipPreflight'], 'skipPreflight', false);
  const preflight = viewOf(endpoint, {
    commitment: from['preflightCommitment'],
    minContextSlot: from['minContextSlot'],
  });
  const refusal = submit(endpoint.chain, transaction, {
    skipPreflight,
    preflightHeight: preflight.height,
    verified: ready !== undefined,
  });
  if (refusal !== null) throw preflightFailure(refusal);
  return base58(transaction.id);
}

/**
 * Returns the error that refuses a transaction before its simulation runs, or null. The lagging
 * endpoint refuses the newest blockhashes, because it does not know them yet. If `anyBlockhash` is
 * true, returns null without any check.
 */
function refusalBeforeRun(
  endpoint: LocalEndpoint,
  transaction: WireTransaction,
  anyBlockhash: boolean,
): TransactionError | null {
  if (anyBlockhash) return null;
  const { chain } = endpoint;
  if (chain.byId.has(transaction.id)) return 'AlreadyProcessed';
  const height = Math.min(viewAt(endpoint, 'processed').height + 1, head(chain).height);
  return hasLiveBlockhash(chain, transaction, height) ? null : 'BlockhashNotFound';
}

function postAccounts(endpoint: LocalEndpoint, wanted: unknown, simulation: Simulation | null) {
  if (wanted === undefined || wanted === null) return null;
  const from = settings([wanted], 0);
  const addresses = from['addresses'];
  if (!Array.isArray(addresses))
    throw invalidParams('Invalid params: accounts.addresses should be an array');
  if (from['encoding'] === 'base58' || from['encoding'] === 'binary')
    throw invalidParams('base58 encoding not supported');
  const encoding = accountEncoding({ encoding: from['encoding'] ?? 'base64' });
  const { chain } = endpoint;
  const { height } = head(chain);
  return addresses.map((address) => {
    const key = publicKey(address);
    if (simulation === null || simulation.err !== null) return null;
    return encodeAccount(
      chain,
      key,
      simulation.accounts.get(key) ?? accountAt(chain, key, height),
      encoding,
      height,
    );
  });
}

function simulateTransaction(params: readonly unknown[], endpoint: LocalEndpoint) {
  const from = settings(params, 1);
  const transaction = decode(endpoint.chain, required(params, 0), encodingOf(from));
  const verify = flag(from['sigVerify'], 'sigVerify', false);
  const replace = flag(from['replaceRecentBlockhash'], 'replaceRecentBlockhash', false);
  if (verify && replace)
    throw invalidParams('sigVerify may not be used with replaceRecentBlockhash');
  const { context } = viewOf(endpoint, from);
  const { chain } = endpoint;
  const { keys, loaded } = loadKeys(chain, transaction);
  const refused = refusalBeforeRun(endpoint, transaction, replace);
  const simulation = refused === null ? chain.vm.simulate(transaction.bytes, verify) : null;
  if (simulation?.err === 'SignatureFailure')
    throw new RpcError(-32003, 'Transaction signature verification failure');
  const err = refused ?? simulation?.err ?? null;
  const details = simulation === null ? NOT_RUN : detailsOf(simulation.record);
  const before = keys.map((key) => current(chain, key));
  const after = keys.map((key, index) => simulation?.accounts.get(key) ?? before[index] ?? null);
  const tokens = before.flatMap(
    (was, index) => tokenChange(chain, index, was, after[index] ?? null) ?? [],
  );
  const latest = chain.blocks.at(-2) ?? head(chain);
  return {
    context,
    value: {
      accounts: postAccounts(endpoint, from['accounts'], simulation),
      err,
      fee: offerOf(transaction.message).fee,
      innerInstructions: flag(from['innerInstructions'], 'innerInstructions', false)
        ? innerInstructions(details.inner, keys, 'jsonParsed')
        : null,
      loadedAccountsDataSize: before.reduce((sum, state) => sum + (state?.data.length ?? 0), 0),
      loadedAddresses: loadedAddresses(loaded),
      logs: details.logs,
      postBalances: after.map((state) => state?.lamports ?? 0n),
      postTokenBalances: tokenBalances(tokens, 'after'),
      preBalances: before.map((state) => state?.lamports ?? 0n),
      preTokenBalances: tokenBalances(tokens, 'before'),
      replacementBlockhash: replace
        ? { blockhash: base58(latest.hash), lastValidBlockHeight: latest.height + BLOCKHASH_AGE }
        : null,
      returnData: returnData(details),
      unitsConsumed: details.units,
    },
  };
}

function requestAirdrop(params: readonly unknown[], { chain }: LocalEndpoint) {
  const owner = base58(publicKey(required(params, 0)));
  const lamports = u64(required(params, 1), 'lamports');
  const outcome = airdrop(chain, owner, lamports);
  if ('refused' in outcome)
    throw internalError(`the faucet could not send: ${errorText(outcome.refused)}`);
  return base58(outcome.id);
}

export const sendMethods = { sendTransaction, simulateTransaction, requestAirdrop };
