// Who may be sent to next, and how much at once: what keeps a hung or flooding endpoint from costing the others anything. In memory, per process.
//
// Each endpoint has a window of requests in flight. It starts at one, grows by one with each success up to the configured cap and halves with each
// failure down to one, so that an endpoint that is down is probed by one request at a time while its deliveries wait their turn, and one that is
// back gets its backlog, oldest first, at once. All endpoints whose last request failed share a quarter of the places, and those that nothing is
// known of half: a quarter at least is there for those that answer. First sendings and retries each leave an eighth of the places to the other.
import type { ClaimedDelivery, Grant, LaneKind } from '../db/deliveries.ts';

/** A place that one request takes. */
export interface Place {
  endpointId: string;
  kind: LaneKind;
  /** Whose places it takes. */
  standing: Standing;
}

/** What the last request to an endpoint showed. */
export type Standing = 'unknown' | 'answers' | 'fails';

export interface Lanes {
  /** There may be due deliveries in this lane; `swept`: the oldest of them may be older than what was claimed of it so far. */
  found(endpointId: string, kind: LaneKind, swept: boolean): void;
  /** Which lanes to claim from now, and how much of each; never more than there are free places. What is granted must be told to `claimed`. */
  grant(): Grant[];
  /** What came of grants. A lane that was filled may hold more. */
  claimed(grants: readonly Grant[], deliveries: readonly ClaimedDelivery[]): void;
  take(endpointId: string, kind: LaneKind): Place;
  /** The request is over: answered well, badly (or not at all), or never sent. */
  free(place: Place, result: 'good' | 'bad' | 'unsent'): void;
  /** Forgets endpoints that nothing was heard of for `idleMs`. */
  forget(idleMs: number): void;
  readonly inFlight: number;
  /** Those of them that go to endpoints that answer: places that will soon be free. */
  readonly answering: number;
}

interface Endpoint {
  id: string;
  window: number;
  standing: Standing;
  inFlight: number;
  due: [boolean, boolean];
  /** By kind: when the newest that was claimed since the last sweep was due (Unix ms). */
  from: [number, number];
  /** Whose turn it is when there is room for one. */
  next: LaneKind;
  usedAt: number;
}

const firstWindow = 1;
/** Lanes of one claim at the most: bounds the statement when thousands of endpoints are due. */
const grantLimit = 500;

/** `total` requests in flight, `perEndpoint` of them to one endpoint. */
export function createLanes({ total, perEndpoint }: { total: number; perEndpoint: number }): Lanes {
  const endpoints = new Map<string, Endpoint>();
  // In the order in which they were served last: the one that waits longest comes first.
  const due = new Set<Endpoint>();
  const share = total - Math.floor(total / 8);
  const standingShare: Record<Standing, number> = { answers: total, unknown: Math.ceil(total / 2), fails: Math.ceil(total / 4) };
  const byKind: [number, number] = [0, 0];
  let inFlight = 0;
  const byStanding: Record<Standing, number> = { answers: 0, unknown: 0, fails: 0 };

  const endpointOf = (id: string): Endpoint => {
    const known = endpoints.get(id);
    if (known !== undefined) return known;
    const endpoint: Endpoint = {
      id,
      window: firstWindow,
      standing: 'unknown',
      inFlight: 0,
      due: [false, false],
      from: [0, 0],
      next: 0,
      usedAt: performance.now(),
    };
    endpoints.set(id, endpoint);
    return endpoint;
  };

  return {
    found(endpointId, kind, swept) {
      const endpoint = endpointOf(endpointId);
      endpoint.due[kind] = true;
      if (swept) endpoint.from[kind] = 0;
      due.add(endpoint);
    },

    grant() {
      const grants: Grant[] = [];
      let free = total - inFlight;
      const leftOf: Record<Standing, number> = {
        answers: standingShare.answers - byStanding.answers,
        unknown: standingShare.unknown - byStanding.unknown,
        fails: standingShare.fails - byStanding.fails,
      };
      const left: [number, number] = [share - byKind[0], share - byKind[1]];
      for (const endpoint of due) {
        if (free <= 0 || grants.length >= grantLimit) break;
        const room = Math.min(endpoint.window - endpoint.inFlight, free, leftOf[endpoint.standing]);
        if (room <= 0) continue;
        const rooms = divide(room, endpoint, left);
        for (const kind of [0, 1] as const) {
          const granted = Math.min(rooms[kind], left[kind]);
          if (granted <= 0 || !endpoint.due[kind]) continue;
          grants.push({ endpointId: endpoint.id, kind, room: granted, from: endpoint.from[kind] });
          left[kind] -= granted;
          free -= granted;
          leftOf[endpoint.standing] -= granted;
          // Until `claimed` says otherwise; found() in the meantime counts.
          endpoint.due[kind] = false;
        }
      }
      for (const { endpointId } of grants) {
        const endpoint = endpointOf(endpointId);
        due.delete(endpoint);
        if (endpoint.due[0] || endpoint.due[1]) due.add(endpoint);
      }
      return grants;
    },

    claimed(grants, deliveries) {
      const counts = new Map<Endpoint, [number, number]>();
      for (const { endpointId, attempts, dueAt } of deliveries) {
        const endpoint = endpointOf(endpointId);
        const kind = attempts === 0 ? 0 : 1;
        const count = counts.get(endpoint) ?? [0, 0];
        counts.set(endpoint, count);
        count[kind] += 1;
        endpoint.from[kind] = Math.max(endpoint.from[kind], dueAt);
      }
      for (const { endpointId, kind, room } of grants) {
        if ((counts.get(endpointOf(endpointId))?.[kind] ?? 0) >= room) this.found(endpointId, kind, false);
      }
    },

    take(endpointId, kind) {
      const endpoint = endpointOf(endpointId);
      endpoint.inFlight += 1;
      endpoint.usedAt = performance.now();
      inFlight += 1;
      byKind[kind] += 1;
      byStanding[endpoint.standing] += 1;
      return { endpointId, kind, standing: endpoint.standing };
    },

    free({ endpointId, kind, standing }, result) {
      const endpoint = endpointOf(endpointId);
      endpoint.inFlight -= 1;
      inFlight -= 1;
      byKind[kind] -= 1;
      byStanding[standing] -= 1;
      if (result === 'unsent') return;
      endpoint.standing = result === 'good' ? 'answers' : 'fails';
      endpoint.window = result === 'good' ? Math.min(perEndpoint, endpoint.window + 1) : Math.max(1, Math.floor(endpoint.window / 2));
    },

    forget(idleMs) {
      const before = performance.now() - idleMs;
      for (const endpoint of endpoints.values()) {
        if (endpoint.inFlight === 0 && endpoint.usedAt < before && !due.has(endpoint)) endpoints.delete(endpoint.id);
      }
    },

    get inFlight() {
      return inFlight;
    },
    get answering() {
      return byStanding.answers;
    },
  };
}

/** Room for first sendings and for retries: half each while both wait, turn by turn when it is one. */
function divide(room: number, endpoint: Endpoint, left: readonly [number, number]): [number, number] {
  if (!endpoint.due[1] || left[1] <= 0) return [room, 0];
  if (!endpoint.due[0] || left[0] <= 0) return [0, room];
  if (room > 1) return [room - Math.floor(room / 2), Math.floor(room / 2)];
  endpoint.next = endpoint.next === 0 ? 1 : 0;
  return endpoint.next === 0 ? [1, 0] : [0, 1];
}
