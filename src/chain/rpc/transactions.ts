// The RPC client's methods for transactions: sending, simulation, statuses and history.
import { signatureOf } from '../keypair.ts';
import { EndpointFailure, isUnreadable, RpcError, RpcUnreachable } from './errors.ts';
import type { Ask, Failover } from './failover.ts';
import { perHost } from './hosts.ts';
import { joinStatuses } from './joined-status.ts';
import {
  big,
  type Commitment,
  type FoundTransaction,
  inContext,
  oldestSlot,
  readableTransaction,
  type SignatureInfo,
  signatureInfos,
  simulation,
  statuses,
  text,
  unreadableTransaction,
} from './responses.ts';
import type { Rpc } from './rpc.ts';

/** Maximum number of signatures in one getSignatureStatuses request. */
export const STATUSES_AT_ONCE = 256;

const base64 = (bytes: Uint8Array) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64');

export function sendMethods(
  reads: Failover,
  sends: Failover,
): Pick<Rpc, 'sendTransaction' | 'simulateTransaction' | 'getFeeForMessage'> {
  return {
    async sendTransaction(bytes, { to = 'all', withinMs } = {}) {
      const signature = signatureOf(bytes);
      const params = [base64(bytes), { encoding: 'base64', skipPreflight: true, maxRetries: 0 }];
      const read = (result: unknown) => {
        if (text(result, 'signature') !== signature)
          throw new EndpointFailure('malformed', 'the signature of another transaction');
        return signature;
      };
      return to === 'all'
        ? sends.callAny('sendTransaction', params, read, { withinMs })
        : sends.call('sendTransaction', params, read, { withinMs });
    },
    async simulateTransaction(
      bytes,
      { commitment = 'confirmed', ownBlockhash = false, minSlot } = {},
    ) {
      const config = {
        encoding: 'base64',
        commitment,
        sigVerify: false,
        replaceRecentBlockhash: !ownBlockhash,
        ...(minSlot !== undefined && { minContextSlot: Number(minSlot) }),
      };
      const response = await reads.call('simulateTransaction', [base64(bytes), config], (result) =>
        inContext(result, minSlot, simulation),
      );
      return { ...response.value, slot: response.slot };
    },
    async getFeeForMessage(message, { commitment = 'confirmed' } = {}) {
      const response = await reads.call(
        'getFeeForMessage',
        [base64(message), { commitment }],
        (result) =>
          inContext(result, undefined, (value) => (value === null ? null : big(value, 'fee'))),
      );
      return response.value;
    },
  };
}

export function historyMethods(
  reads: Failover,
): Pick<
  Rpc,
  | 'getSignatureStatuses'
  | 'getTransaction'
  | 'getTransactionEverywhere'
  | 'getSignaturesForAddress'
  | 'getHistoriesEverywhere'
> {
  return {
    async getSignatureStatuses(signatures, options = {}) {
      const found = await statusesOf(reads, signatures, options);
      const doubted = signatures.filter((_, index) => found.statuses[index]?.isDoubted === true);
      if (doubted.length === 0 || options.everywhere === true) return found;
      const everywhere = { ...options, history: true, everywhere: true };
      const joinedStatuses = await statusesOf(reads, doubted, everywhere);
      const joined = new Map(doubted.map((one, index) => [one, joinedStatuses.statuses[index]]));
      const statuses = signatures.map(
        (one, index) => joined.get(one) ?? found.statuses[index] ?? null,
      );
      return { ...found, statuses };
    },
    getTransaction: (signature, { commitment = 'confirmed' } = {}) =>
      firstReadable(reads, signature, commitment),
    getTransactionEverywhere: (signature, { commitment = 'finalized' } = {}) =>
      transactionEverywhere(reads, signature, commitment),
    async getSignaturesForAddress(
      address,
      { before, until, limit = 1000, commitment = 'confirmed', everywhere = false } = {},
    ) {
      const params = [
        address,
        {
          commitment,
          limit,
          ...(before !== undefined && { before }),
          ...(until !== undefined && { until }),
        },
      ];
      if (!everywhere) return reads.call('getSignaturesForAddress', params, signatureInfos);
      return joined(await reads.callAll('getSignaturesForAddress', params, signatureInfos), limit);
    },
    getHistoriesEverywhere: (...asked) => historiesEverywhere(reads, ...asked),
  };
}

/** Parameters of getTransaction. `version` is the highest version that the endpoint may return. */
const paramsOf = (signature: string, commitment: Commitment, version: number) => [
  signature,
  { commitment, encoding: 'json', maxSupportedTransactionVersion: version },
];

async function firstReadable(
  reads: Failover,
  signature: string,
  commitment: Commitment,
): Promise<FoundTransaction> {
  const readWith = (version: number): Promise<FoundTransaction> =>
    reads
      .call('getTransaction', paramsOf(signature, commitment, version), readableTransaction)
      .catch((error: unknown) => unreadableTransaction(signature, error));
  const found = await readWith(1);
  // An endpoint that does not know version 1 transactions may refuse the request, because the
  // request allows versions up to 1. The same endpoint still returns older versions. Therefore the
  // request is repeated with a maximum version of 0.
  return 'unreadable' in found && found.unreadable === 'refused' ? readWith(0) : found;
}

async function transactionEverywhere(
  reads: Failover,
  signature: string,
  commitment: Commitment,
): ReturnType<Rpc['getTransactionEverywhere']> {
  try {
    const answers = await reads.callEach('getTransaction', async (ask, host) => {
      const readWith = (version: number) =>
        ask('getTransaction', paramsOf(signature, commitment, version), readableTransaction);
      const copy = await readWith(1).catch((error: unknown) => {
        if (error instanceof EndpointFailure && error.fault === 'refused') return readWith(0);
        throw error;
      });
      return { host, copy };
    });
    const witnesses = new Set(answers.map(({ host }) => host)).size;
    return { copies: answers.map(({ copy }) => copy), witnesses };
  } catch (error) {
    if (!hasResponse(error)) throw error;
    return { copies: [], witnesses: 0 };
  }
}

async function statusesOf(
  reads: Failover,
  signatures: readonly string[],
  {
    history = false,
    everywhere = false,
    minSlot,
    since,
  }: NonNullable<Parameters<Rpc['getSignatureStatuses']>[1]>,
): ReturnType<Rpc['getSignatureStatuses']> {
  if (signatures.length > STATUSES_AT_ONCE)
    throw new RangeError(
      `at most ${STATUSES_AT_ONCE} signatures at once, not ${signatures.length}`,
    );
  if (signatures.length === 0) return { slot: 0n, witnesses: 0, statuses: [] };
  const params = [signatures, { searchTransactionHistory: history }];
  const read = (result: unknown) => {
    const found = inContext(result, minSlot, (value) => statuses(value, signatures.length));
    if (found.value.some((status) => status !== null && status.slot > found.slot))
      throw new EndpointFailure('malformed', 'a status of a later slot than its own');
    return found;
  };
  const ofEndpoint = async (ask: Ask, host: string) => {
    const found = await ask('getSignatureStatuses', params, read);
    return { host, ...found, isWitness: await reachesBack(ask, reads, since) };
  };
  const responses = everywhere
    ? await reads.callEach('getSignatureStatuses', ofEndpoint)
    : [await ofEndpoint((...call) => reads.call(...call), '')];
  return {
    slot: oldestSlot(responses),
    witnesses: new Set(responses.filter((one) => one.isWitness).map(({ host }) => host)).size,
    statuses: signatures.map((_, index) =>
      joinStatuses(
        responses.map(({ host, value }) => ({ host, status: value[index] ?? null })),
        reads.size,
      ),
    ),
  };
}

/** Maximum number of transactions that one request for a history lists. */
const HISTORY_LIMIT = 1000;

async function historiesEverywhere(
  reads: Failover,
  address: string,
  { minSlot, since, commitment = 'finalized' }: Parameters<Rpc['getHistoriesEverywhere']>[1],
): ReturnType<Rpc['getHistoriesEverywhere']> {
  const config = {
    commitment,
    limit: HISTORY_LIMIT,
    ...(minSlot > 0n && { minContextSlot: Number(minSlot) }),
  };
  const answers = await reads.callEach('getSignaturesForAddress', async (ask, host) => {
    const listed = await ask('getSignaturesForAddress', [address, config], signatureInfos);
    const isWhole = listed.length < HISTORY_LIMIT && (await reachesBack(ask, reads, since));
    return { host, value: { listed, isWhole } };
  });
  return [
    ...perHost(answers, (one, other) => ({
      listed: [...one.listed, ...other.listed],
      isWhole: one.isWhole || other.isWhole,
    })),
  ];
}

/**
 * Whether the endpoint keeps blocks since the slot `since`. False if the endpoint does not tell,
 * for example because it lacks the method. A single endpoint is not asked, because no other
 * endpoint could replace it.
 */
async function reachesBack(
  ask: Ask,
  reads: Pick<Failover, 'size'>,
  since: bigint | undefined,
): Promise<boolean> {
  if (since === undefined || reads.size === 1) return true;
  try {
    const first = await ask('getFirstAvailableBlock', [], (slot) => big(slot, 'first block'));
    return first <= since;
  } catch (error) {
    const isRefused = error instanceof EndpointFailure || error instanceof RpcError;
    if (isRefused || error instanceof RpcUnreachable) return false;
    throw error;
  }
}

/**
 * Merges the lists of several endpoints, newest first, without duplicates. Each endpoint lists at
 * most `limit` transactions, so the merged list may lack transactions after the first `limit`
 * entries. Therefore only the first `limit` entries are returned. A caller that continues after the
 * last entry then misses no transaction.
 */
function joined(lists: readonly (readonly SignatureInfo[])[], limit: number): SignatureInfo[] {
  const bySignature = new Map<string, SignatureInfo>();
  for (const one of lists.flat()) {
    const earlier = bySignature.get(one.signature);
    bySignature.set(one.signature, earlier === undefined ? one : mergeInfo(earlier, one));
  }
  const merged = [...bySignature.values()];
  // The sort is stable, so transactions of one slot stay in the order in which an endpoint listed
  // them.
  return merged.length === lists[0]?.length
    ? merged
    : merged.sort((a, b) => Number(b.slot - a.slot)).slice(0, limit);
}

/**
 * Merges two endpoints' entries of one transaction. The merged entry is successful if either entry
 * is, and has the time of either entry. The caller reads the transaction to be sure.
 */
const mergeInfo = (one: SignatureInfo, other: SignatureInfo): SignatureInfo => ({
  ...one,
  err: one.err === null ? null : other.err,
  blockTime: one.blockTime ?? other.blockTime,
});

/**
 * Whether an endpoint responded to getTransaction, although without a readable transaction. An HTTP
 * error or a malformed response counts, because it does not show an outage.
 */
const hasResponse = (error: unknown): boolean =>
  error instanceof RpcUnreachable &&
  error.failures.some(
    ({ fault }) => isUnreadable(fault) || fault === 'http' || fault === 'malformed',
  );

/**
 * Reads a finalized transaction that an endpoint has listed for an address. If endpoints respond
 * without the transaction, the result is an UnreadableTransaction. Throws RpcUnreachable when no
 * endpoint responds at all.
 */
export async function readListed(
  rpc: Pick<Rpc, 'getTransaction'>,
  signature: string,
): Promise<FoundTransaction> {
  try {
    return await rpc.getTransaction(signature, { commitment: 'finalized' });
  } catch (error) {
    if (!hasResponse(error)) throw error;
    return { signature, unreadable: 'refused' };
  }
}
