// When a signed transaction can never land any more. One endpoint may lag, report wrong
// heights or never have had the blockhash, so every endpoint is asked.
import { newestSlot } from './responses.ts';
import type { Lifetime, LifetimeResponse, Rpc } from './rpc.ts';

/** The end of a blockhash, by every endpoint that responded about it. */
export interface Expiry {
  /** Number of endpoints that responded. */
  readonly witnesses: number;
  /** The oldest finalized slot by which they judged. */
  readonly slot: bigint;
}

/** Identifies a lifetime: two endpoints may give the same blockhash with different heights. */
export const lifetimeKey = ({ blockhash, lastValidBlockHeight, slot }: Lifetime) =>
  `${blockhash} ${lastValidBlockHeight} ${slot}`;

/**
 * Slots that an endpoint may be behind the most advanced one. One that is further behind does not
 * know what is live.
 */
const MAX_BEHIND = 150n;

/**
 * The blockhashes that are dead: at finalized, every endpoint that responds reports that they are
 * not valid, and that the height is past their last block. Throws as the RPC client does when no
 * endpoint responds.
 */
export async function witnessExpiry(
  rpc: Pick<Rpc, 'getLifetimesEverywhere'>,
  lifetimes: readonly Lifetime[],
): Promise<ReadonlyMap<string, Expiry>> {
  const distinct = [...new Map(lifetimes.map((one) => [lifetimeKey(one), one]))];
  if (distinct.length === 0) return new Map();
  const responses = await rpc.getLifetimesEverywhere(distinct.map(([, one]) => one));
  const newest = newestSlot(responses.map(({ slot }) => slot));
  const isCurrent = ({ slot }: LifetimeResponse) => slot + MAX_BEHIND >= newest;
  const dead = distinct.flatMap(([key], place): [string, Expiry][] => {
    if (responses.some((one) => one.ends[place] === 'live' && isCurrent(one))) return [];
    const slots = responses.map(({ ends }) => ends[place]).filter((end) => typeof end === 'bigint');
    if (slots.length === 0) return [];
    const slot = slots.reduce((low, one) => (one < low ? one : low));
    return [[key, { witnesses: slots.length, slot }]];
  });
  return new Map(dead);
}

/**
 * Whether this number of witnesses suffices where nothing but the expiry protects from a second
 * transfer: two, where two are configured.
 */
export const isWitnessed = (rpc: Pick<Rpc, 'endpoints'>, witnesses: number): boolean =>
  witnesses >= Math.min(2, rpc.endpoints());
