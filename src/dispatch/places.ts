// How many requests are in flight, and to whom: what keeps a hung or flooding endpoint from costing the others anything. In memory, per process.
//
// Each endpoint has a window of requests in flight. It starts at one, grows by one with each success up to the configured cap and halves with each
// failure down to one, so that an endpoint that is down is probed by one request at a time while its deliveries wait their turn, and one that is
// back gets its backlog, oldest first, at once. All endpoints whose last request failed share a quarter of the places, and those that nothing is
// known of half: a quarter at least is there for those that answer. First sendings and retries each leave an eighth of the places to the other.
// Places that become free go to the lane that was served longest ago.
import type { LaneKind } from '../db/deliveries.ts';
import { kinds, lanesByStanding, standings, type Endpoint, type Lane, type Standing } from './lane.ts';

/** A place that one request takes. */
export interface Place {
  endpoint: Endpoint;
  kind: LaneKind;
  /** Whose places it takes. */
  standing: Standing;
}

export interface Places {
  /** What the lane has ready or what its endpoint may have in flight has changed. */
  sort(lane: Lane): void;
  /** The lane whose turn it is; undefined when nothing may be sent now. */
  pick(): Lane | undefined;
  /** Takes a place for what the lane has just given out. */
  take(lane: Lane): Place;
  /** The request is over: answered well or badly (or not at all). */
  free(place: Place, result: 'good' | 'bad'): void;
  /** Places that endpoints of this standing may still take, beyond those that their lanes are waiting for. */
  left(standing: Standing): number;
  readonly inFlight: number;
}

function firstReady(lanes: Iterable<Lane>): Lane | undefined {
  for (const lane of lanes) if (lane.ready.length > 0) return lane;
  return undefined;
}

/** `total` requests in flight, `perEndpoint` of them to one endpoint. */
export function createPlaces({ total, perEndpoint }: { total: number; perEndpoint: number }): Places {
  // In the order in which they were read or served last: the one that waits longest comes first.
  const startable = [lanesByStanding(), lanesByStanding()] as const;
  const share = total - Math.floor(total / 8);
  const standingShare: Record<Standing, number> = { answers: total, unknown: Math.ceil(total / 2), fails: Math.ceil(total / 4) };
  const byKind: [number, number] = [0, 0];
  const byStanding: Record<Standing, number> = { answers: 0, unknown: 0, fails: 0 };
  let inFlight = 0;
  let serving = 0;

  const sort = (lane: Lane) => {
    const { endpoint } = lane;
    const set = startable[lane.kind][endpoint.standing];
    if ((lane.ready.length > 0 || lane.waits) && endpoint.inFlight < endpoint.window) set.add(lane);
    else set.delete(lane);
  };

  return {
    sort,

    pick() {
      if (inFlight >= total) return undefined;
      let lane: Lane | undefined;
      for (const standing of standings) {
        if (byStanding[standing] >= standingShare[standing]) continue;
        for (const kind of kinds) {
          const set = startable[kind][standing];
          if (set.size === 0 || byKind[kind] >= share) continue;
          const first = firstReady(set);
          if (first !== undefined && (lane === undefined || first.servedAt < lane.servedAt)) lane = first;
        }
      }
      return lane;
    },

    take(lane) {
      const { endpoint, kind } = lane;
      const { standing } = endpoint;
      inFlight += 1;
      byKind[kind] += 1;
      byStanding[standing] += 1;
      endpoint.inFlight += 1;
      lane.servedAt = serving += 1;
      startable[kind][standing].delete(lane);
      for (const each of endpoint.lanes) sort(each);
      return { endpoint, kind, standing };
    },

    free({ endpoint, kind, standing }, result) {
      endpoint.inFlight -= 1;
      inFlight -= 1;
      byKind[kind] -= 1;
      byStanding[standing] -= 1;
      const now = result === 'good' ? 'answers' : 'fails';
      if (endpoint.standing !== now) {
        for (const lane of endpoint.lanes) {
          startable[lane.kind][endpoint.standing].delete(lane);
          lane.waits = false;
        }
        endpoint.standing = now;
      }
      endpoint.window = result === 'good' ? Math.min(perEndpoint, endpoint.window + 1) : Math.max(1, Math.floor(endpoint.window / 2));
      for (const lane of endpoint.lanes) sort(lane);
    },

    left(standing) {
      return standingShare[standing] - byStanding[standing] - startable[0][standing].size - startable[1][standing].size;
    },

    get inFlight() {
      return inFlight;
    },
  };
}
