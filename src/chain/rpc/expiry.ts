// Decides when a signed transaction can no longer land. A single endpoint may lag, report wrong
// block heights or not know the blockhash, so every endpoint is asked.
import { newestSlot } from './responses.ts';
import type { Lifetime, Rpc } from './rpc.ts';

/** Evidence from the endpoints that a blockhash has expired. */
export interface Expiry {
  /** Number of endpoints that reported the expiry. */
  readonly witnesses: number;
  /** The oldest finalized slot among the endpoints that reported the expiry. */
  readonly slot: bigint;
}

/**
 * Key of a blockhash's lifetime in a map. The key contains the block height and the slot, because
 * two endpoints may report different heights for one blockhash.
 */
export const lifetimeKey = ({ blockhash, lastValidBlockHeight, slot }: Lifetime) =>
  `${blockhash} ${lastValidBlockHeight} ${slot}`;

/**
 * Maximum lag (slots) of an endpoint behind the most advanced endpoint. An endpoint with a larger
 * lag proves neither that a blockhash is valid nor that it has expired, because it may not know the
 * blockhash yet. trusted-slots.ts limits how far an endpoint can be ahead, so one wrong endpoint
 * cannot make the others count as lagging.
 */
const MAX_BEHIND = 600n;

/** Returns the responses of the endpoints that lag by at most MAX_BEHIND slots. */
export function currentOf<T extends { readonly slot: bigint }>(responses: readonly T[]): T[] {
  const newest = newestSlot(responses.map(({ slot }) => slot));
  return responses.filter(({ slot }) => slot + MAX_BEHIND >= newest);
}

/**
 * Returns the expired lifetimes by `lifetimeKey`. A lifetime has expired if more endpoints report
 * the expiry than report `live` (`LifetimeResponse.ends`), so one wrong endpoint of three cannot
 * prevent all expiries. The reports of an endpoint are ignored if it lags by more than MAX_BEHIND
 * slots. Throws RpcUnreachable or RpcError when no endpoint responds.
 */
export async function witnessExpiry(
  rpc: Pick<Rpc, 'getLifetimesEverywhere'>,
  lifetimes: readonly Lifetime[],
): Promise<ReadonlyMap<string, Expiry>> {
  const distinct = [...new Map(lifetimes.map((one) => [lifetimeKey(one), one]))];
  if (distinct.length === 0) return new Map();
  const current = currentOf(await rpc.getLifetimesEverywhere(distinct.map(([, one]) => one)));
  const dead = distinct.flatMap(([key], index): [string, Expiry][] => {
    const reported = current.map(({ ends }) => ends[index]);
    const live = reported.filter((end) => end === 'live').length;
    const slots = reported.filter((end) => typeof end === 'bigint');
    if (slots.length <= live) return [];
    const slot = slots.reduce((low, one) => (one < low ? one : low));
    return [[key, { witnesses: slots.length, slot }]];
  });
  return new Map(dead);
}

/**
 * Whether enough endpoints confirmed that a transaction expired: two endpoints, or one if only one
 * is configured. Used where a wrong confirmation would allow a second transfer.
 */
export const isWitnessed = (rpc: Pick<Rpc, 'endpoints'>, witnesses: number): boolean =>
  witnesses >= Math.min(2, rpc.endpoints());
