// An endpoint as a dispatcher knows it, and its two lanes: its first sendings (kind 0) and its retries (kind 1).
import type { DueDelivery, LaneKind } from '../db/deliveries.ts';
import type { Lease } from './leases.ts';

/** What the last request to an endpoint showed. */
export type Standing = 'answers' | 'unknown' | 'fails';

export interface Lane {
  readonly endpoint: Endpoint;
  readonly kind: LaneKind;
  /** There may be more in the database. */
  due: boolean;
  /** Read and not sent yet, oldest first. */
  ready: DueDelivery[];
  /** It keeps its turn while what was ready is read again. */
  waits: boolean;
  /** performance.now() after which what is ready is read again before it is sent. */
  staleAt: number;
  /** How much to have ready. */
  target: number;
  /** Read and not known to be written: the database may still show them as due. */
  known: number;
  /** The last that was read since the last sweep: when it was due (Unix seconds) and its id. */
  after: { dueAt: number; id: string };
  /** Lanes are served in turns: at which one this was served last. */
  servedAt: number;
}

export interface Endpoint {
  readonly id: string;
  readonly lanes: readonly [Lane, Lane];
  /** How many requests may be in flight to it. */
  window: number;
  standing: Standing;
  inFlight: number;
  lease: Lease | undefined;
  /** performance.now() until which nothing is read of it. */
  pausedUntil: number;
  /** It is being handed over: nothing more is read or started. */
  leaving: boolean;
  usedAt: number;
}

/** In the order in which their lanes are read. */
export const standings: readonly Standing[] = ['answers', 'unknown', 'fails'];

export const kinds: readonly LaneKind[] = [0, 1];

/** Where a lane begins: before every row. */
export const laneStart = { dueAt: 0, id: '00000000-0000-0000-0000-000000000000' } as const;

/** One that nothing is known of. */
export function newEndpoint(id: string): Endpoint {
  const endpoint = {
    id,
    window: 1,
    standing: 'unknown',
    inFlight: 0,
    lease: undefined,
    pausedUntil: 0,
    leaving: false,
    usedAt: performance.now(),
  } as Omit<Endpoint, 'lanes'> as Endpoint;
  return Object.assign(endpoint, { lanes: [newLane(endpoint, 0), newLane(endpoint, 1)] as const });
}

function newLane(endpoint: Endpoint, kind: LaneKind): Lane {
  return { endpoint, kind, due: false, ready: [], waits: false, staleAt: 0, target: 0, known: 0, after: laneStart, servedAt: 0 };
}

/** Sets of lanes by the standing of their endpoints, each in the order in which they came in. */
export function lanesByStanding(): Record<Standing, Set<Lane>> {
  return { answers: new Set(), unknown: new Set(), fails: new Set() };
}
