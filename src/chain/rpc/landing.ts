// Determines whether a signed transaction has landed, can never land, or may still land. Used for
// payments, refunds, sponsored and relayed transactions.
//
// A transaction is dead if (1) its blockhash has expired (expiry.ts), and (2) afterwards no
// endpoint's history has it. If several hosts are configured, two of them must show both, and each
// history must reach back to the blockhash. A transaction that any endpoint has is not dead. An
// endpoint that fails, is rate limited, lags or lacks the history does not count.
//
// A failure is final only if two endpoints report it (joined-status.ts). If only one endpoint
// reports a failure, that endpoint counts as lacking the transaction.
import { chunks } from '../../each.ts';
import { isWitnessed, lifetimeKey, witnessExpiry } from './expiry.ts';
import { newestSlot, oldestSlot, type SignatureStatus } from './responses.ts';
import type { Lifetime, Rpc } from './rpc.ts';
import { STATUSES_AT_ONCE } from './transactions.ts';

/** A signed transaction whose outcome is to be determined. */
export interface Sought {
  readonly signature: string;
  readonly lifetime: Lifetime;
  /**
   * Whether two endpoints have to agree that it is dead. False only if no other transaction of the
   * same purpose could land in addition.
   */
  readonly needsTwo: boolean;
  /** A slot before the blockhash of the transaction, used if the lifetime's slot is 0. */
  readonly since?: bigint;
}

export interface Landing {
  /**
   * `landed`: an endpoint has the transaction. `dead`: it can never land. `unknown`: neither is
   * certain, so the transaction may still land.
   */
  readonly verdict: 'landed' | 'dead' | 'unknown';
  /**
   * The status at the endpoint that has the transaction; null if no endpoint has it. The status of
   * a dead transaction may be a doubted failure.
   */
  readonly status: SignatureStatus | null;
  /** Finalized slot at which the blockhash had expired. Null while it may be valid. */
  readonly expiredAt: bigint | null;
  /**
   * Whether two endpoints (or the only one) show no success of the transaction, in histories that
   * reach back to its blockhash.
   */
  readonly isProven: boolean;
  /**
   * Whether two endpoints (or the only one) show no success of the transaction, however far back
   * their histories reach.
   */
  readonly isAnswered: boolean;
}

const UNDECIDED: Landing = {
  verdict: 'unknown',
  status: null,
  expiredAt: null,
  isProven: false,
  isAnswered: false,
};

/**
 * Maximum distance (slots) between the blockhashes that share a request for statuses. The histories
 * have to reach back to the oldest of them.
 */
const GROUP_SLOTS = 1500n;

/**
 * Assumed maximum age (slots) of a blockhash whose slot is unknown: half an hour at 400 ms per
 * slot. The relay accepts offers for ten minutes. A wallet may use another blockhash, whose slot
 * the service does not know.
 */
const AGE_SLOTS = 4500n;

interface Expired<T> {
  readonly one: T;
  /** The finalized slot at which its blockhash had expired. */
  readonly slot: bigint;
}

type Judging = Pick<Rpc, 'getLifetimesEverywhere' | 'getSignatureStatuses' | 'endpoints'>;

/**
 * Determines the outcome of transactions whose signature is known. Reads statuses only of
 * transactions whose blockhash has expired. Throws RpcUnreachable or RpcError.
 */
export async function judgeLandings<T extends Sought>(
  rpc: Judging,
  sought: readonly T[],
): Promise<ReadonlyMap<T, Landing>> {
  const ends = await witnessExpiry(
    rpc,
    sought.map(({ lifetime }) => lifetime),
  );
  const expired = sought.flatMap((one): Expired<T>[] => {
    const end = ends.get(lifetimeKey(one.lifetime));
    const isEnough = end !== undefined && (!one.needsTwo || isWitnessed(rpc, end.witnesses));
    return isEnough ? [{ one, slot: end.slot }] : [];
  });
  const landings = new Map<T, Landing>(sought.map((one) => [one, UNDECIDED]));
  for (const group of groupsOf(expired))
    for (const [one, landing] of await judgeExpired(rpc, group)) landings.set(one, landing);
  return landings;
}

/** The slot to which histories must reach back; 0 if it is unknown. */
const sinceOf = ({ lifetime: { slot }, since = 0n }: Sought) => (slot > 0n ? slot : since);

/** Groups transactions whose blockhashes are at most GROUP_SLOTS apart. */
function groupsOf<T extends Sought>(expired: readonly Expired<T>[]): Expired<T>[][] {
  const sorted = [...expired].sort((a, b) => Number(sinceOf(a.one) - sinceOf(b.one)));
  const groups: Expired<T>[][] = [];
  for (const each of sorted) {
    const last = groups.at(-1);
    const [oldest] = last ?? [];
    if (oldest !== undefined && sinceOf(each.one) - sinceOf(oldest.one) <= GROUP_SLOTS)
      last?.push(each);
    else groups.push([each]);
  }
  return groups;
}

async function judgeExpired<T extends Sought>(
  rpc: Judging,
  group: readonly Expired<T>[],
): Promise<[T, Landing][]> {
  const signatures = [...new Set(group.map(({ one }) => one.signature))];
  const minSlot = newestSlot(group.map(({ slot }) => slot));
  const oldest = group[0] === undefined ? 0n : sinceOf(group[0].one);
  const since = oldest > 0n ? oldest : newestSlot([oldestSlot(group) - AGE_SLOTS]);
  const found = new Map<string, Landing>();
  for (const some of chunks(signatures, STATUSES_AT_ONCE)) {
    const ask = (reach: bigint | undefined) =>
      rpc.getSignatureStatuses(some, { history: true, everywhere: true, minSlot, since: reach });
    const first = await ask(since);
    const isProven = isWitnessed(rpc, first.witnesses);
    // A status that was found counts even if the history of its endpoint is too short.
    const others = isProven ? first : await ask(undefined);
    const isAnswered = isWitnessed(rpc, others.witnesses);
    for (const [index, signature] of some.entries()) {
      const status = first.statuses[index] ?? others.statuses[index] ?? null;
      const isLacking = status === null || status.isDoubted === true;
      const verdict = isLacking ? 'unknown' : 'landed';
      found.set(signature, { verdict, status, expiredAt: null, isProven, isAnswered });
    }
  }
  return group.map(({ one, slot }): [T, Landing] => {
    const landing = found.get(one.signature) ?? UNDECIDED;
    const isDead = landing.verdict === 'unknown' && (!one.needsTwo || landing.isProven);
    return [one, { ...landing, expiredAt: slot, ...(isDead && { verdict: 'dead' }) }];
  });
}

/**
 * Whether a transaction that was sent at most `ageSeconds` ago has reached the chain so far.
 * `never` requires two endpoints (or the only one) whose histories reach back that far. A
 * transaction that is still on its way is not seen. Throws RpcUnreachable or RpcError.
 */
export async function judgeSent(
  rpc: Pick<Rpc, 'getSignatureStatuses' | 'getHeights' | 'endpoints'>,
  signature: string,
  ageSeconds: number,
): Promise<'sent' | 'never' | 'unknown'> {
  const options = { history: true, everywhere: true, ...(await recentReach(rpc, ageSeconds)) };
  const { statuses, witnesses } = await rpc.getSignatureStatuses([signature], options);
  if (statuses.some((status) => status !== null)) return 'sent';
  return isWitnessed(rpc, witnesses) ? 'never' : 'unknown';
}

/** A transaction whose signature is unknown. No other transaction names the address `reference`. */
export interface Referenced {
  readonly reference: string;
  readonly lifetime: Lifetime;
}

/** Maximum number of slots per second. */
const SLOTS_PER_SECOND = 5;
/** Maximum lag (slots) behind the newest finalized slot for an endpoint whose history counts. */
const LAG_SLOTS = 150n;

/** The slots that a history must cover: at least from `since` to `minSlot`. */
interface Reach {
  readonly minSlot: bigint;
  readonly since: bigint;
}

/** Returns the slots that a history must cover to show the last `ageSeconds`. */
async function recentReach(rpc: Pick<Rpc, 'getHeights'>, ageSeconds: number): Promise<Reach> {
  // These slots are checked (trusted-slots.ts), so one endpoint that reports a future slot cannot
  // make the others count as lagging.
  const heights = await rpc.getHeights({ commitment: 'finalized' });
  const slot = newestSlot(heights.map((one) => one.slot));
  const age = BigInt(Math.ceil(ageSeconds * SLOTS_PER_SECOND));
  return { minSlot: newestSlot([slot - LAG_SLOTS]), since: newestSlot([slot - age]) };
}

/**
 * Determines the outcome of a transaction whose signature is unknown, from the histories of its
 * reference. `readSignatures` has the signatures that were read and belong to other transactions.
 * If an endpoint lists any further signature, the result is `unknown`, because that transaction
 * must be read first. Throws RpcUnreachable or RpcError.
 */
export async function judgeByReference(
  rpc: Pick<Rpc, 'getLifetimesEverywhere' | 'getHistoriesEverywhere' | 'endpoints'>,
  { reference, lifetime }: Referenced,
  readSignatures: ReadonlySet<string>,
): Promise<'dead' | 'unknown'> {
  const end = (await witnessExpiry(rpc, [lifetime])).get(lifetimeKey(lifetime));
  if (end === undefined || !isWitnessed(rpc, end.witnesses)) return 'unknown';
  const reach = { minSlot: end.slot, since: lifetime.slot };
  const histories = await rpc.getHistoriesEverywhere(reference, reach);
  const lists = histories.flatMap(({ listed }) => listed);
  if (lists.some(({ signature, err }) => err === null && !readSignatures.has(signature)))
    return 'unknown';
  return isWitnessed(rpc, histories.filter(({ isWhole }) => isWhole).length) ? 'dead' : 'unknown';
}
