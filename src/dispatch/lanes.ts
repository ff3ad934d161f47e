// Who may be sent to next, and how much at once: what keeps a hung or flooding endpoint from costing the others anything. In memory, per process.
//
// Each endpoint has a window of requests in flight. It starts at one, grows by one with each success up to the configured cap and halves with each
// failure down to one, so that an endpoint that is down is probed by one request at a time while its deliveries wait their turn, and one that is
// back gets its backlog, oldest first, at once. All endpoints whose last request failed share a quarter of the places, and those that nothing is
// known of half: a quarter at least is there for those that answer. First sendings and retries each leave an eighth of the places to the other.
//
// A lane is an endpoint's first sendings or its retries. What is due in it is read ahead, since reading many costs little more than reading one:
// twice as much whenever the lane ran dry, forgotten and read anew when it was not sent within a second. Places that become free go to the lane
// that was served longest ago.
import type { DueDelivery, LaneKind, Grant } from '../db/deliveries.ts';
import type { Lease } from './leases.ts';

/** A place that one request takes. */
export interface Place {
  endpointId: string;
  kind: LaneKind;
  /** Whose places it takes. */
  standing: Standing;
}

/** What the last request to an endpoint showed. */
export type Standing = 'answers' | 'unknown' | 'fails';

/** A delivery that is to be sent now. */
export interface Start {
  delivery: DueDelivery;
  claimId: string;
  place: Place;
}

export interface Lanes {
  /** There may be due deliveries in this lane; `swept`: also older ones than those that were read of it so far. */
  found(endpointId: string, kind: LaneKind, swept: boolean): void;
  /** Which lanes to read from now, and how much of each. What is granted must be told to `filled`. */
  grant(): Grant[];
  /** What came of grants under these leases; a lane without one is another dispatcher's. Returns what was read and is not `sendable`. */
  filled(
    grants: readonly Grant[],
    leases: ReadonlyMap<string, Lease>,
    deliveries: readonly DueDelivery[],
    sendable: (delivery: DueDelivery) => boolean,
  ): DueDelivery[];
  /** Takes a place for what is to be sent next; undefined when nothing may be sent now. */
  next(): Start | undefined;
  /** The request is over: answered well or badly (or not at all). */
  free(place: Place, result: 'good' | 'bad'): void;
  /** What became of these is in the database, or is not going to be. */
  done(ids: readonly string[]): void;
  /** Reads nothing of an endpoint for so long. */
  pause(endpointId: string, ms: number): void;
  /** Forgets endpoints that nothing was heard of for `idleMs`. */
  forget(idleMs: number): void;
  /** Whether a grant would be of use since the last one. */
  readonly hungry: boolean;
  /** Whether a lane ran dry since then: places may stand empty for it. */
  readonly starved: boolean;
  readonly inFlight: number;
}

interface Lane {
  readonly endpoint: Endpoint;
  readonly kind: LaneKind;
  /** There may be more in the database. */
  due: boolean;
  /** Read and not sent yet, oldest first. */
  ready: DueDelivery[];
  staleAt: number;
  /** How much to have ready. */
  target: number;
  /** Read and not known to be written: the database may still show them as due. */
  known: number;
  /** The last that was read since the last sweep: when it was due (Unix seconds) and its id. */
  after: { dueAt: number; id: string };
  servedAt: number;
}

interface Endpoint {
  readonly id: string;
  lanes: readonly [Lane, Lane];
  window: number;
  standing: Standing;
  inFlight: number;
  lease: Lease | undefined;
  pausedUntil: number;
  usedAt: number;
}

const firstWindow = 1;
/** Lanes of one read at the most: bounds the statement when thousands of endpoints are due. */
const grantLimit = 500;
const largestTarget = 1000;
/** So long, at the most, does the state in which a delivery was read stay true enough to send it: its endpoint may be deleted meanwhile. */
const freshMs = 1000;
/** Seconds between a row's being queued and its transaction's end, within which it is found without a sweep. */
const commitSeconds = 0.5;
/** While no more than this is in hand and the lane never ran dry, a read begins that much earlier, and what is in hand is read once more. */
const rereadLimit = 64;
const nil = '00000000-0000-0000-0000-000000000000';
const standings = ['answers', 'unknown', 'fails'] as const;
const kinds = [0, 1] as const;

/** `total` requests in flight, `perEndpoint` of them to one endpoint. */
export function createLanes({ total, perEndpoint }: { total: number; perEndpoint: number }): Lanes {
  const endpoints = new Map<string, Endpoint>();
  // In the order in which they were read or served last: the one that waits longest comes first.
  const sets = (): Record<Standing, Set<Lane>> => ({ answers: new Set(), unknown: new Set(), fails: new Set() });
  const due = sets();
  const startable = [sets(), sets()] as const;
  const known = new Map<string, Lane>();
  const share = total - Math.floor(total / 8);
  const standingShare: Record<Standing, number> = { answers: total, unknown: Math.ceil(total / 2), fails: Math.ceil(total / 4) };
  const readyLimit = Math.max(4 * total, 2 * largestTarget);
  const byKind: [number, number] = [0, 0];
  const byStanding: Record<Standing, number> = { answers: 0, unknown: 0, fails: 0 };
  let inFlight = 0;
  let ready = 0;
  let serving = 0;
  let hungry = false;
  let starved = false;
  // Between grant() and filled(): what is written meanwhile may still come as due.
  let reading = false;
  let written: string[] = [];

  const endpointOf = (id: string): Endpoint => {
    let endpoint = endpoints.get(id);
    if (endpoint === undefined) endpoints.set(id, (endpoint = newEndpoint(id)));
    return endpoint;
  };

  const setDue = (lane: Lane, isDue: boolean) => {
    lane.due = isDue;
    if (isDue) due[lane.endpoint.standing].add(lane);
    else due[lane.endpoint.standing].delete(lane);
  };
  const sort = (lane: Lane) => {
    const { endpoint } = lane;
    const set = startable[lane.kind][endpoint.standing];
    if (lane.ready.length > 0 && endpoint.inFlight < endpoint.window) set.add(lane);
    else set.delete(lane);
  };
  const settle = (id: string) => {
    const lane = known.get(id);
    if (lane === undefined) return;
    known.delete(id);
    lane.known -= 1;
  };
  /** What is ready is read again before it is sent. */
  const reread = (lane: Lane) => {
    for (const { id } of lane.ready) settle(id);
    ready -= lane.ready.length;
    lane.ready = [];
    lane.target = Math.floor(lane.target / 2);
    lane.after = { dueAt: 0, id: nil };
    sort(lane);
    setDue(lane, true);
    hungry = true;
  };
  const targetOf = ({ target, endpoint }: Lane) => Math.max(target, endpoint.window);
  const wants = (lane: Lane, left: number): number => {
    const { endpoint } = lane;
    if (endpoint.standing !== 'answers') {
      return Math.min(endpoint.window - endpoint.inFlight - endpoint.lanes[0].ready.length - endpoint.lanes[1].ready.length, left);
    }
    const target = targetOf(lane);
    if (lane.ready.length > target / 2) return 0;
    // One that has nothing in hand gets its first places whatever the others hold.
    return Math.min(target - lane.ready.length, Math.max(left, lane.known === 0 ? endpoint.window : 0));
  };

  return {
    found(endpointId, kind, swept) {
      const lane = endpointOf(endpointId).lanes[kind];
      if (swept) lane.after = { dueAt: 0, id: nil };
      setDue(lane, true);
      hungry = true;
    },

    grant() {
      const grants: Grant[] = [];
      const now = performance.now();
      hungry = false;
      starved = false;
      for (const standing of standings) {
        let left = standing === 'answers' ? readyLimit - ready : standingShare[standing] - byStanding[standing];
        if (standing !== 'answers') for (const kind of kinds) left -= startable[kind][standing].size;
        for (const lane of due[standing]) {
          if (grants.length >= grantLimit || (left <= 0 && standing !== 'answers')) break;
          if (lane.endpoint.pausedUntil > now) continue;
          const room = wants(lane, left);
          if (room <= 0) continue;
          left -= room;
          const { dueAt, id } = lane.after;
          const again = lane.known <= rereadLimit && lane.target <= lane.endpoint.window;
          grants.push({
            endpointId: lane.endpoint.id,
            kind: lane.kind,
            room: again || dueAt === 0 ? room + lane.known : room,
            after: again ? { dueAt: Math.max(0, dueAt - commitSeconds), id: nil } : { dueAt, id },
          });
        }
      }
      // Until `filled` says otherwise; found() in the meantime counts.
      for (const { endpointId, kind } of grants) setDue(endpointOf(endpointId).lanes[kind], false);
      reading = grants.length > 0;
      return grants;
    },

    filled(grants, leases, deliveries, sendable) {
      const now = performance.now();
      const counts = new Map<Lane, number>();
      const unsendable: DueDelivery[] = [];
      let endpoint: Endpoint | undefined;
      for (const delivery of deliveries) {
        if (endpoint?.id !== delivery.endpointId) endpoint = endpointOf(delivery.endpointId);
        const lane = endpoint.lanes[delivery.attempts === 0 ? 0 : 1];
        counts.set(lane, (counts.get(lane) ?? 0) + 1);
        lane.after = { dueAt: delivery.dueAt, id: delivery.id };
        if (known.has(delivery.id)) continue;
        known.set(delivery.id, lane);
        lane.known += 1;
        if (sendable(delivery)) {
          lane.ready.push(delivery);
          ready += 1;
        } else unsendable.push(delivery);
      }
      for (const { endpointId, kind, room } of grants) {
        const endpoint = endpointOf(endpointId);
        const lane = endpoint.lanes[kind];
        const lease = leases.get(endpointId);
        endpoint.lease = lease;
        lane.staleAt = now + freshMs;
        if (lease !== undefined && (counts.get(lane) ?? 0) >= room) this.found(endpointId, kind, false);
        else lane.target = 0;
        sort(lane);
      }
      reading = false;
      for (const id of written) settle(id);
      written = [];
      return unsendable;
    },

    next() {
      while (inFlight < total) {
        let lane: Lane | undefined;
        for (const standing of standings) {
          if (byStanding[standing] >= standingShare[standing]) continue;
          for (const kind of kinds) {
            if (byKind[kind] >= share) continue;
            const set = startable[kind][standing];
            if (set.size === 0) continue;
            for (const first of set) {
              if (lane === undefined || first.servedAt < lane.servedAt) lane = first;
              break;
            }
          }
        }
        if (lane === undefined) return undefined;
        const { endpoint, kind } = lane;
        const { standing, lease } = endpoint;
        const now = performance.now();
        const delivery = lane.ready[0];
        if (delivery === undefined || lease === undefined || now > lease.sendBefore || now > lane.staleAt) {
          reread(lane);
          continue;
        }
        lane.ready.shift();
        ready -= 1;
        inFlight += 1;
        byKind[kind] += 1;
        byStanding[standing] += 1;
        endpoint.inFlight += 1;
        endpoint.usedAt = now;
        lane.servedAt = serving += 1;
        startable[kind][standing].delete(lane);
        for (const each of endpoint.lanes) sort(each);
        if (lane.due) {
          if (lane.ready.length === 0 && standing === 'answers') {
            lane.target = Math.min(largestTarget, 2 * targetOf(lane));
            starved = true;
          }
          if (lane.ready.length <= lane.target / 2) hungry = true;
        }
        return { delivery, claimId: lease.claimId, place: { endpointId: endpoint.id, kind, standing } };
      }
      return undefined;
    },

    free({ endpointId, kind, standing }, result) {
      const endpoint = endpointOf(endpointId);
      endpoint.inFlight -= 1;
      inFlight -= 1;
      byKind[kind] -= 1;
      byStanding[standing] -= 1;
      const now = result === 'good' ? 'answers' : 'fails';
      if (endpoint.standing !== now) {
        for (const lane of endpoint.lanes) {
          startable[lane.kind][endpoint.standing].delete(lane);
          due[endpoint.standing].delete(lane);
        }
        endpoint.standing = now;
        for (const lane of endpoint.lanes) setDue(lane, lane.due);
      }
      endpoint.window = result === 'good' ? Math.min(perEndpoint, endpoint.window + 1) : Math.max(1, Math.floor(endpoint.window / 2));
      for (const lane of endpoint.lanes) sort(lane);
      if (standing !== 'answers' && due[standing].size > 0) hungry = true;
      for (const lane of endpoint.lanes) if (lane.due && lane.ready.length <= targetOf(lane) / 2) hungry = true;
    },

    done(ids) {
      if (reading) written.push(...ids);
      else for (const id of ids) settle(id);
    },

    pause(endpointId, ms) {
      endpointOf(endpointId).pausedUntil = performance.now() + ms;
    },

    forget(idleMs) {
      const before = performance.now() - idleMs;
      for (const { id, lanes, inFlight: own, usedAt } of endpoints.values()) {
        if (own === 0 && usedAt < before && lanes.every((lane) => !lane.due && lane.known === 0)) endpoints.delete(id);
      }
    },

    get hungry() {
      return hungry;
    },
    get starved() {
      return starved;
    },
    get inFlight() {
      return inFlight;
    },
  };
}

function newEndpoint(id: string): Endpoint {
  const endpoint = {
    id,
    window: firstWindow,
    standing: 'unknown',
    inFlight: 0,
    lease: undefined,
    pausedUntil: 0,
    usedAt: performance.now(),
  } as Endpoint;
  endpoint.lanes = [newLane(endpoint, 0), newLane(endpoint, 1)];
  return endpoint;
}

function newLane(endpoint: Endpoint, kind: LaneKind): Lane {
  return { endpoint, kind, due: false, ready: [], staleAt: 0, target: 0, known: 0, after: { dueAt: 0, id: nil }, servedAt: 0 };
}
