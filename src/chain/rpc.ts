import { isAddress, CLOCK_SYSVAR } from './addresses.ts';
import type { ChainAccount } from './accounts.ts';
import {
  accounts,
  array,
  big,
  type Commitment,
  type ConfirmedTransaction,
  confirmedTransaction,
  inContext,
  object,
  type SignatureInfo,
  signatureInfos,
  type SignatureStatus,
  type Simulation,
  simulation,
  statuses,
  text,
} from './answers.ts';
import type { EndpointHealth } from './endpoint.ts';
import { createFailover, type FailoverOptions } from './failover.ts';
import { type ClockAccount, decodeClock } from './layouts.ts';
import { signatureOf } from './message.ts';
import { EndpointFailure } from './rpc-errors.ts';

// The part of Solana's JSON-RPC that the service uses, with plain results: bigint for slots, heights and lamports, Buffers for data.
// Every method throws RpcUnreachable (nothing is known, try later) or RpcError (refused, trying again is no use).

/** What an account read is of. `minSlot`: no older state than this; an endpoint that is not there yet is passed over. */
export interface ReadOptions {
  readonly commitment?: Commitment;
  readonly minSlot?: bigint | undefined;
}

/** A blockhash to sign with. */
export interface Blockhash {
  readonly blockhash: string;
  /** The last block height at which a transaction with it can land. */
  readonly lastValidBlockHeight: bigint;
  /** The block height at which it was the newest. */
  readonly blockHeight: bigint;
  readonly slot: bigint;
}

export interface Rpc {
  /** Accounts in the order asked for, in batches of 100. `slot` is the oldest that any part is of. */
  getMultipleAccounts(addresses: readonly string[], options?: ReadOptions): Promise<{ slot: bigint; accounts: (ChainAccount | null)[] }>;
  /** The cluster's clock, by which programs judge time. One account: it can as well be read along with others, see `decodeClock`. */
  getClock(options?: ReadOptions): Promise<ClockAccount>;
  /** Statuses of up to 256 signatures; null is unknown to that endpoint. `history` looks beyond the last 150 blocks, `everywhere` asks all endpoints. */
  getSignatureStatuses(
    signatures: readonly string[],
    options?: { history?: boolean; everywhere?: boolean; minSlot?: bigint | undefined },
  ): Promise<{ slot: bigint; statuses: (SignatureStatus | null)[] }>;
  /**
   * Sends a signed transaction with maxRetries 0 and no preflight to every endpoint (or one), and resolves with its signature once one took it.
   * After `withinMs` milliseconds it is handed to no further endpoint.
   */
  sendTransaction(bytes: Uint8Array, options?: { to?: 'all' | 'one'; withinMs?: number }): Promise<string>;
  /** Runs a transaction without sending it, by default with the newest blockhash and unsigned. */
  simulateTransaction(
    bytes: Uint8Array,
    options?: { commitment?: Commitment; ownBlockhash?: boolean },
  ): Promise<Simulation & { slot: bigint }>;
  getLatestBlockhash(options?: { commitment?: Commitment }): Promise<Blockhash>;
  /** Slot and block height of one and the same block. */
  getHeight(options?: { commitment?: Commitment }): Promise<{ slot: bigint; blockHeight: bigint }>;
  getBlockHeight(options?: { commitment?: Commitment }): Promise<bigint>;
  getSlot(options?: { commitment?: Commitment }): Promise<bigint>;
  /** Unix seconds of a block, null when unknown. */
  getBlockTime(slot: bigint): Promise<bigint | null>;
  /** A confirmed transaction, null when no endpoint has it. */
  getTransaction(signature: string, options?: { commitment?: 'confirmed' | 'finalized' }): Promise<ConfirmedTransaction | null>;
  /** Transactions that name an address, newest first, up to 1,000; `before` and `until` are signatures. `everywhere` joins what all endpoints have. */
  getSignaturesForAddress(
    address: string,
    options?: {
      before?: string | undefined;
      until?: string | undefined;
      limit?: number;
      commitment?: 'confirmed' | 'finalized';
      everywhere?: boolean;
    },
  ): Promise<SignatureInfo[]>;
  getBalance(address: string, options?: ReadOptions): Promise<bigint>;
  getGenesisHash(): Promise<string>;
  /** Micro-lamports per compute unit that recent transactions writing to all these accounts paid at least, one figure per block. */
  getRecentPrioritizationFees(writable: readonly string[]): Promise<bigint[]>;
  /** Lamports that an account of `length` bytes must hold. */
  getMinimumBalanceForRentExemption(length: number): Promise<bigint>;
  /** Lamports that a message costs, null when its blockhash is not known any more. */
  getFeeForMessage(message: Uint8Array, options?: { commitment?: Commitment }): Promise<bigint | null>;
  health(): EndpointHealth[];
  close(): Promise<void>;
}

const ACCOUNTS_AT_ONCE = 100;
const STATUSES_AT_ONCE = 256;
// Solana's MAX_PROCESSING_AGE: a blockhash is good for 150 blocks after the one it is of.
const BLOCKHASH_LIFE = 150n;

const base64 = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');

/** Opens a client over several RPC URLs; nothing is sent yet. Throws a TypeError for a URL that is none. */
export function createRpc(options: FailoverOptions): Rpc {
  const { call, callAll, callAny, health, close } = createFailover(options);
  const { urls } = options;

  async function accountsAt<T>(
    addresses: readonly string[],
    { commitment = 'confirmed', minSlot }: ReadOptions,
    read: (found: (ChainAccount | null)[]) => T,
  ): Promise<{ slot: bigint; value: T }> {
    const config = { commitment, encoding: 'base64', ...(minSlot !== undefined && { minContextSlot: Number(minSlot) }) };
    return call('getMultipleAccounts', [addresses, config], (result) =>
      inContext(result, minSlot, (value) => read(accounts(value, addresses.length))),
    );
  }

  return {
    async getMultipleAccounts(addresses, read = {}) {
      const batches = [];
      for (let start = 0; start < addresses.length; start += ACCOUNTS_AT_ONCE) {
        batches.push(accountsAt(addresses.slice(start, start + ACCOUNTS_AT_ONCE), read, (found) => found));
      }
      const answers = await Promise.all(batches);
      return {
        slot: answers.reduce((oldest, { slot }) => (slot < oldest ? slot : oldest), answers[0]?.slot ?? 0n),
        accounts: answers.flatMap(({ value }) => value),
      };
    },
    async getClock(read = {}) {
      const { value } = await accountsAt([CLOCK_SYSVAR], read, ([clock]) => {
        if (!clock) throw new EndpointFailure('malformed', 'the Clock sysvar has no account');
        return decodeClock(clock.data);
      });
      return value;
    },
    async getSignatureStatuses(signatures, { history = false, everywhere = false, minSlot } = {}) {
      if (signatures.length > STATUSES_AT_ONCE)
        throw new RangeError(`at most ${STATUSES_AT_ONCE} signatures at once, not ${signatures.length}`);
      if (signatures.length === 0) return { slot: 0n, statuses: [] };
      const params = [signatures, { searchTransactionHistory: history }];
      const read = (result: unknown) => inContext(result, minSlot, (value) => statuses(value, signatures.length));
      const answers = everywhere ? await callAll('getSignatureStatuses', params, read) : [await call('getSignatureStatuses', params, read)];
      return {
        slot: answers.reduce((oldest, { slot }) => (slot < oldest ? slot : oldest), answers[0]?.slot ?? 0n),
        statuses: signatures.map((_, place) => furthest(answers.map(({ value }) => value[place] ?? null))),
      };
    },
    async sendTransaction(bytes, { to = 'all', withinMs } = {}) {
      const signature = signatureOf(bytes);
      const params = [base64(bytes), { encoding: 'base64', skipPreflight: true, maxRetries: 0 }];
      const read = (result: unknown) => {
        if (text(result, 'signature') !== signature) throw new EndpointFailure('malformed', 'the signature of another transaction');
        return signature;
      };
      return to === 'all' ? callAny('sendTransaction', params, read, { withinMs }) : call('sendTransaction', params, read, { withinMs });
    },
    async simulateTransaction(bytes, { commitment = 'confirmed', ownBlockhash = false } = {}) {
      const config = { encoding: 'base64', commitment, sigVerify: false, replaceRecentBlockhash: !ownBlockhash };
      const answer = await call('simulateTransaction', [base64(bytes), config], (result) => inContext(result, undefined, simulation));
      return { ...answer.value, slot: answer.slot };
    },
    async getLatestBlockhash({ commitment = 'confirmed' } = {}) {
      return call('getLatestBlockhash', [{ commitment }], (result) => {
        const { slot, value } = inContext(result, undefined, (found) => object(found, 'blockhash'));
        const lastValidBlockHeight = big(value.lastValidBlockHeight, 'lastValidBlockHeight');
        const blockhash = text(value.blockhash, 'blockhash');
        if (!isAddress(blockhash)) throw new EndpointFailure('malformed', 'a blockhash that is not Base58 of 32 bytes');
        return { blockhash, lastValidBlockHeight, blockHeight: lastValidBlockHeight - BLOCKHASH_LIFE, slot };
      });
    },
    getHeight: ({ commitment = 'confirmed' } = {}) =>
      call('getEpochInfo', [{ commitment }], (result) => {
        const { absoluteSlot, blockHeight } = object(result, 'epoch info');
        return { slot: big(absoluteSlot, 'absoluteSlot'), blockHeight: big(blockHeight, 'blockHeight') };
      }),
    getBlockHeight: ({ commitment = 'confirmed' } = {}) =>
      call('getBlockHeight', [{ commitment }], (result) => big(result, 'block height')),
    getSlot: ({ commitment = 'confirmed' } = {}) => call('getSlot', [{ commitment }], (result) => big(result, 'slot')),
    getBlockTime: (slot) => call('getBlockTime', [Number(slot)], (result) => (result === null ? null : big(result, 'block time'))),
    async getTransaction(signature, { commitment = 'confirmed' } = {}) {
      const params = [signature, { commitment, encoding: 'json', maxSupportedTransactionVersion: 0 }];
      const found = await call('getTransaction', params, confirmedTransaction);
      // How far back history goes, and how soon it is written, differs from endpoint to endpoint.
      if (found !== null || urls.length === 1) return found;
      return (await callAll('getTransaction', params, confirmedTransaction)).find((one) => one !== null) ?? null;
    },
    async getSignaturesForAddress(address, { before, until, limit = 1000, commitment = 'confirmed', everywhere = false } = {}) {
      const params = [address, { commitment, limit, ...(before !== undefined && { before }), ...(until !== undefined && { until }) }];
      if (!everywhere) return call('getSignaturesForAddress', params, signatureInfos);
      return joined(await callAll('getSignaturesForAddress', params, signatureInfos), limit);
    },
    async getBalance(address, { commitment = 'confirmed', minSlot } = {}) {
      const config = { commitment, ...(minSlot !== undefined && { minContextSlot: Number(minSlot) }) };
      const answer = await call('getBalance', [address, config], (result) => inContext(result, minSlot, (value) => big(value, 'balance')));
      return answer.value;
    },
    getGenesisHash: () => call('getGenesisHash', [], (result) => text(result, 'genesis hash')),
    getRecentPrioritizationFees: (writable) =>
      call('getRecentPrioritizationFees', [writable], (result) =>
        array(result, 'fees').map((one) => big(object(one, 'fee').prioritizationFee, 'prioritizationFee')),
      ),
    getMinimumBalanceForRentExemption: (length) =>
      call('getMinimumBalanceForRentExemption', [length], (result) => big(result, 'rent exemption')),
    async getFeeForMessage(message, { commitment = 'confirmed' } = {}) {
      const answer = await call('getFeeForMessage', [base64(message), { commitment }], (result) =>
        inContext(result, undefined, (value) => (value === null ? null : big(value, 'fee'))),
      );
      return answer.value;
    },
    health,
    close,
  };
}

/** Each transaction once, newest first; only the newest `limit`, since an endpoint whose list is full may have others between the older ones. */
function joined(lists: readonly (readonly SignatureInfo[])[], limit: number): SignatureInfo[] {
  const [first = [], ...others] = lists;
  const seen = new Set(first.map(({ signature }) => signature));
  const more = others.flat().filter(({ signature }) => !seen.has(signature) && seen.add(signature));
  // Within a slot each endpoint's own order stays.
  return more.length === 0 ? [...first] : [...first, ...more].sort((a, b) => Number(b.slot - a.slot)).slice(0, limit);
}

const STAGES: readonly Commitment[] = ['processed', 'confirmed', 'finalized'];

/** What the endpoint that knows most says of a signature. */
function furthest(found: readonly (SignatureStatus | null)[]): SignatureStatus | null {
  const rank = (status: SignatureStatus | null) => (status === null ? -1 : STAGES.indexOf(status.commitment));
  return found.reduce((best, one) => (rank(one) > rank(best) ? one : best), null);
}
