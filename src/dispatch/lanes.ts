// What may be sent next. A lane is an endpoint's first sendings or its retries. What is due in it is read ahead, since reading many costs little
// more than reading one: twice as much whenever the lane ran dry, forgotten and read anew when it was not sent within a second. Who gets the places
// is said in places.ts. In memory, per process.
import type { DueDelivery, Grant, LaneKind } from '../db/deliveries.ts';
import { createInHand } from './in-hand.ts';
import { laneStart, lanesByStanding, newEndpoint, standings, type Endpoint, type Lane } from './lane.ts';
import type { Lease } from './leases.ts';
import { createPlaces, type Place } from './places.ts';

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
  /** What was granted last was not read. */
  failed(): void;
  /** The request is over: answered well or badly (or not at all). */
  free(place: Place, result: 'good' | 'bad'): void;
  /** What became of these is in the database, or is not going to be. */
  done(ids: readonly string[]): void;
  /** Reads nothing of an endpoint for so long. */
  pause(endpointId: string, ms: number): void;
  /** Starts and reads nothing more of an endpoint, so that it can be handed over. */
  leave(endpointId: string): void;
  /** Endpoints that were left and of which nothing is in hand any more; each is told once, and read again only after `pauseMs`. */
  left(pauseMs: number): string[];
  /** Forgets endpoints that nothing was heard of for `idleMs`. */
  forget(idleMs: number): void;
  /** Whether a grant would be of use since the last one. */
  readonly hungry: boolean;
  /** Whether a lane ran dry since then: places may stand empty for it. */
  readonly starved: boolean;
  readonly inFlight: number;
}

/** Lanes of one read at the most: bounds the statement when thousands of endpoints are due. */
const grantLimit = 500;
const largestTarget = 1000;
/** So long, at the most, does the state in which a delivery was read stay true enough to send it: its endpoint may be deleted meanwhile. */
const freshMs = 1000;
/** Seconds between a row's being queued and its transaction's end, within which it is found without a sweep. */
const commitSeconds = 0.5;
/** While no more than this is in hand and there is no backlog, a read begins that much earlier, and what is in hand is read once more. */
const rereadLimit = 64;

/** `total` requests in flight, `perEndpoint` of them to one endpoint. */
export function createLanes({ total, perEndpoint }: { total: number; perEndpoint: number }): Lanes {
  const places = createPlaces({ total, perEndpoint });
  const endpoints = new Map<string, Endpoint>();
  const due = lanesByStanding();
  const inHand = createInHand();
  const leaving = new Set<Endpoint>();
  const readyLimit = Math.max(4 * total, 2 * largestTarget);
  // Where outcomes are written more slowly than requests end, sending waits for them: what is sent and not written is sent again after a crash.
  const inHandLimit = 2 * readyLimit;
  let ready = 0;
  let hungry = false;
  let starved = false;
  let full = false;

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
  /** What is ready is read again before it is sent. */
  const reread = (lane: Lane) => {
    for (const { id } of lane.ready) inHand.drop(id);
    ready -= lane.ready.length;
    lane.ready = [];
    lane.target = Math.floor(lane.target / 2);
    lane.after = laneStart;
    // Only where no more is read than there are places for could those that wait stand in its way.
    lane.waits = lane.endpoint.standing === 'answers';
    places.sort(lane);
    setDue(lane, true);
    hungry = true;
  };
  const targetOf = ({ target, endpoint }: Lane) => Math.max(target, endpoint.window);
  /** It ran dry: twice as much next time, up to its share of what may be ready in all. */
  const grow = (lane: Lane) => {
    const share = Math.min(largestTarget, Math.floor(readyLimit / Math.max(1, due.answers.size)));
    lane.target = Math.max(lane.target, Math.min(2 * targetOf(lane), share));
  };
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
      if (swept) lane.after = laneStart;
      setDue(lane, true);
      hungry = true;
    },

    grant() {
      const grants: Grant[] = [];
      const now = performance.now();
      hungry = false;
      starved = false;
      full = inHand.count >= inHandLimit;
      for (const standing of standings) {
        let left = standing === 'answers' ? Math.min(readyLimit - ready, inHandLimit - inHand.count) : places.left(standing);
        for (const lane of due[standing]) {
          if (grants.length >= grantLimit) {
            hungry = true;
            break;
          }
          if (left <= 0 && standing !== 'answers') break;
          if (lane.endpoint.leaving || lane.endpoint.pausedUntil > now) continue;
          const room = wants(lane, left);
          if (room <= 0) continue;
          left -= room;
          const { dueAt, id } = lane.after;
          const again = lane.known <= rereadLimit && lane.target <= lane.endpoint.window;
          grants.push({
            endpointId: lane.endpoint.id,
            kind: lane.kind,
            room: again || dueAt === 0 ? room + lane.known : room,
            after: again ? { dueAt: Math.max(0, dueAt - commitSeconds), id: laneStart.id } : { dueAt, id },
          });
        }
      }
      // Until `filled` says otherwise; found() in the meantime counts.
      for (const { endpointId, kind } of grants) setDue(endpointOf(endpointId).lanes[kind], false);
      if (grants.length > 0) inHand.readBegins();
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
        if (!inHand.take(delivery.id, lane)) continue;
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
        lane.waits = false;
        if (lease !== undefined && (counts.get(lane) ?? 0) >= room) {
          // A backlog: the next read goes on exactly where this one ended.
          this.found(endpointId, kind, false);
          lane.target = Math.max(lane.target, 2 * endpoint.window);
        } else lane.target = 0;
        places.sort(lane);
      }
      inHand.readEnds();
      return unsendable;
    },

    failed() {
      inHand.readEnds();
    },

    next() {
      for (;;) {
        const lane = places.pick();
        if (lane === undefined) return undefined;
        const { endpoint } = lane;
        const { lease } = endpoint;
        const now = performance.now();
        const delivery = lane.ready[0];
        if (delivery === undefined || lease === undefined || now > lease.sendBefore || now > lane.staleAt) {
          reread(lane);
          continue;
        }
        lane.ready.shift();
        ready -= 1;
        endpoint.usedAt = now;
        const place = places.take(lane);
        if (lane.due) {
          if (lane.ready.length === 0 && place.standing === 'answers') {
            grow(lane);
            starved = true;
          }
          if (lane.ready.length <= lane.target / 2) hungry = true;
        }
        return { delivery, claimId: lease.claimId, place };
      }
    },

    free(place, result) {
      const { endpoint, standing } = place;
      const before = endpoint.standing;
      places.free(place, result);
      if (endpoint.standing !== before) {
        for (const lane of endpoint.lanes) if (due[before].delete(lane)) setDue(lane, true);
      }
      if (standing !== 'answers' && due[standing].size > 0) hungry = true;
      for (const lane of endpoint.lanes) if (lane.due && lane.ready.length <= targetOf(lane) / 2) hungry = true;
    },

    done(ids) {
      inHand.written(ids);
      if (full) hungry = true;
    },

    pause(endpointId, ms) {
      endpointOf(endpointId).pausedUntil = performance.now() + ms;
    },

    leave(endpointId) {
      const endpoint = endpointOf(endpointId);
      endpoint.leaving = true;
      leaving.add(endpoint);
      for (const lane of endpoint.lanes) {
        if (lane.ready.length > 0) reread(lane);
        lane.waits = false;
        places.sort(lane);
      }
    },

    left(pauseMs) {
      const gone = [...leaving].filter(({ inFlight, lanes }) => inFlight === 0 && lanes.every((lane) => lane.known === 0));
      for (const endpoint of gone) {
        leaving.delete(endpoint);
        endpoint.leaving = false;
        endpoint.lease = undefined;
        endpoint.pausedUntil = performance.now() + pauseMs;
      }
      return gone.map(({ id }) => id);
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
      return places.inFlight;
    },
  };
}
