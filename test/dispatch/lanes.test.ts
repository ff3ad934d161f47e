import fc from 'fast-check';
import t from 'tap';
import type { DueDelivery, Grant, LaneKind } from '../../src/db/deliveries.ts';
import { createLanes, type Lanes, type Place } from '../../src/dispatch/lanes.ts';
import type { Lease } from '../../src/dispatch/leases.ts';

let made = 0;

function row(endpointId: string, kind: LaneKind, dueAt = 1): DueDelivery {
  made += 1;
  return { id: `delivery ${made}`, endpointId, eventId: '', attempts: kind, dueAt, body: '', endpointDeleted: false };
}

function leases(grants: readonly Grant[], sendBefore = Infinity): Map<string, Lease> {
  return new Map(grants.map(({ endpointId }) => [endpointId, { claimId: 'a claim', sendBefore }]));
}

/** Reads what is granted: as much of each lane as is there. */
function read(lanes: Lanes, there = (grant: Grant) => grant.room): Grant[] {
  const grants = lanes.grant();
  const rows = grants.flatMap((grant) =>
    Array.from({ length: Math.min(grant.room, there(grant)) }, () => row(grant.endpointId, grant.kind)),
  );
  lanes.filled(grants, leases(grants), rows, () => true);
  return grants;
}

function starts(lanes: Lanes): Place[] {
  const places: Place[] = [];
  for (let start = lanes.next(); start !== undefined; start = lanes.next()) {
    places.push(start.place);
    lanes.done([start.delivery.id]);
  }
  return places;
}

/** Reads what is granted, all of it there, and starts what may be. */
function fill(lanes: Lanes): Place[] {
  read(lanes);
  return starts(lanes);
}

/** Grows an endpoint's window to its cap by answering well; nothing of it is left. */
function prove(lanes: Lanes, endpointId: string): void {
  for (let round = 0; round < 20; round += 1) {
    lanes.found(endpointId, 0, false);
    read(lanes, () => 1);
    for (const place of starts(lanes)) lanes.free(place, 'good');
  }
  read(lanes, () => 0);
}

void t.test('an endpoint gets one place at first, more with each success, and the cap at the most', async (t) => {
  const lanes = createLanes({ total: 100, perEndpoint: 10 });
  lanes.found('a', 0, true);
  const first = fill(lanes);
  t.equal(first.length, 1);
  for (const place of first) lanes.free(place, 'good');
  t.equal(fill(lanes).length, 2);
  prove(lanes, 'b');
  lanes.found('b', 0, false);
  t.equal(fill(lanes).filter(({ endpointId }) => endpointId === 'b').length, 10);
  lanes.found('b', 0, false);
  t.equal(fill(lanes).length, 0, 'what else is ready waits');
});

void t.test('an endpoint that keeps failing is probed by one request at a time, and gets its places back when it answers', async (t) => {
  const lanes = createLanes({ total: 100, perEndpoint: 10 });
  prove(lanes, 'a');
  for (let round = 0; round < 5; round += 1) {
    lanes.found('a', 0, false);
    const [first, ...others] = fill(lanes);
    for (const place of [first, ...others]) if (place !== undefined) lanes.free(place, 'bad');
  }
  const probe = fill(lanes);
  t.equal(probe.length, 1);
  t.equal(fill(lanes).length, 0, 'nothing beside the probe');
  for (const place of probe) lanes.free(place, 'good');
  t.equal(fill(lanes).length, 2);
});

void t.test('endpoints that nothing is known of share half of the places, those that fail a quarter', async (t) => {
  const lanes = createLanes({ total: 40, perEndpoint: 10 });
  prove(lanes, 'good');
  const find = (name: string) => {
    for (let index = 0; index < 50; index += 1) lanes.found(`${name} ${index}`, 0, true);
  };
  find('hung');
  const unknown = fill(lanes);
  t.equal(unknown.length, 20);
  t.equal(fill(lanes).length, 0);
  for (const place of unknown) lanes.free(place, 'bad');
  // Twenty of them fail now, of which ten may be probed at once; the other thirty are still unknown.
  t.equal(fill(lanes).length, 30);
  lanes.found('good', 0, false);
  t.equal(fill(lanes).length, 5, 'the rest of what first sendings may take');
});

void t.test('first sendings and retries leave an eighth of the places to each other', async (t) => {
  const lanes = createLanes({ total: 80, perEndpoint: 10 });
  const endpoints = Array.from({ length: 20 }, (_, index) => `endpoint ${index}`);
  for (const endpoint of endpoints) prove(lanes, endpoint);
  for (const endpoint of endpoints) lanes.found(endpoint, 1, true);
  t.equal(fill(lanes).length, 70);
  t.equal(fill(lanes).length, 0);
  for (const endpoint of endpoints) lanes.found(endpoint, 0, true);
  const fresh = fill(lanes);
  t.equal(fresh.length, 10);
  t.ok(fresh.every(({ kind }) => kind === 0));
});

void t.test('places go to the endpoint that was served longest ago', async (t) => {
  const lanes = createLanes({ total: 4, perEndpoint: 2 });
  for (const id of ['a', 'b', 'c', 'd']) prove(lanes, id);
  for (const id of ['a', 'b', 'c', 'd']) lanes.found(id, 0, true);
  const served: string[] = [];
  for (let round = 0; round < 4; round += 1) {
    const places = fill(lanes);
    served.push(...places.map(({ endpointId }) => endpointId));
    for (const place of places) lanes.free(place, 'good');
  }
  // First sendings may have three and a half of four places.
  const counts = ['a', 'b', 'c', 'd'].map((id) => served.filter((each) => each === id).length);
  t.equal(served.length, 16);
  t.same(counts, [4, 4, 4, 4]);
});

void t.test('a lane is read on from where the last read ended, and from its beginning after a sweep', async (t) => {
  const lanes = createLanes({ total: 100, perEndpoint: 100 });
  const nil = '00000000-0000-0000-0000-000000000000';
  /** Reads `there` rows that were due at `dueAt` and sends them all, but what became of them is not written yet. */
  const take = (there: number, dueAt: number, swept: boolean) => {
    lanes.found('a', 0, swept);
    const grants = lanes.grant();
    const rows = Array.from({ length: there }, () => row('a', 0, dueAt));
    lanes.filled(grants, leases(grants), rows, () => true);
    for (let start = lanes.next(); start !== undefined; start = lanes.next()) lanes.free(start.place, 'good');
    return { grant: grants[0], last: { dueAt, id: rows.at(-1)?.id } };
  };
  t.match(take(5, 1000, true).grant, { room: 1, after: { dueAt: 0, id: nil } });
  take(0, 1000, false);
  const few = take(70, 1001, false);
  t.match(few.grant?.after, { dueAt: 999.5, id: nil }, 'few are in hand: what became visible late is found');
  t.ok((few.grant?.room ?? 0) > 5, 'with room for those in hand, which come again');
  t.same(take(1, 1002, false).grant?.after, few.last, 'it ran dry, and many are in hand: exactly on from there');
  const swept = take(1, 1, true);
  t.match(swept.grant?.after, { dueAt: 0, id: nil });
  t.ok((swept.grant?.room ?? 0) > 75);
});

void t.test('what is in hand is not taken twice, until what became of it is in the database', async (t) => {
  const lanes = createLanes({ total: 10, perEndpoint: 10 });
  const only = row('a', 0);
  const take = () => {
    lanes.found('a', 0, true);
    const grants = lanes.grant();
    lanes.filled(grants, leases(grants), [only], () => true);
    return lanes.next();
  };
  const start = take();
  t.equal(start?.delivery.id, only.id);
  t.equal(take(), undefined, 'while it is sent');
  if (start !== undefined) lanes.free(start.place, 'good');
  t.equal(take(), undefined, 'while it is written');
  lanes.found('a', 0, true);
  const grants = lanes.grant();
  lanes.done([only.id]);
  lanes.filled(grants, leases(grants), [only], () => true);
  t.equal(lanes.next(), undefined, 'when it was read before it was written');
  t.equal(take()?.delivery.id, only.id, 'a replay of the row, say');
});

void t.test('nothing starts without a lease, or under one that would not last', async (t) => {
  const lanes = createLanes({ total: 10, perEndpoint: 10 });
  lanes.found('a', 0, true);
  const first = lanes.grant();
  lanes.filled(first, new Map(), [], () => true);
  t.equal(lanes.next(), undefined);
  t.same(lanes.grant(), [], 'it is found anew when its holder let it go');
  lanes.found('a', 0, true);
  const second = lanes.grant();
  lanes.filled(second, leases(second, performance.now() - 1), [row('a', 0)], () => true);
  t.equal(lanes.next(), undefined);
  t.equal(fill(lanes).length, 1, 'it is leased and read again');
});

void t.test('what cannot be sent is handed back; a pause keeps its endpoint from being read', async (t) => {
  const lanes = createLanes({ total: 10, perEndpoint: 10 });
  lanes.found('a', 0, true);
  const grants = lanes.grant();
  const only = row('a', 0);
  t.same(
    lanes.filled(grants, leases(grants), [only], () => false),
    [only],
  );
  t.equal(lanes.next(), undefined);
  lanes.done([only.id]);
  lanes.pause('a', 60_000);
  lanes.found('a', 0, true);
  t.same(lanes.grant(), []);
});

void t.test('a notification that comes during a read is not lost', async (t) => {
  const lanes = createLanes({ total: 10, perEndpoint: 10 });
  lanes.found('a', 0, true);
  const grants = lanes.grant();
  lanes.found('a', 0, false);
  lanes.filled(grants, leases(grants), [], () => true);
  t.equal(lanes.hungry, true);
  t.equal(lanes.grant().length, 1);
});

void t.test(
  'whatever happens, no more is in flight than the caps allow, nothing is started twice, and nothing that is due is forgotten',
  async (t) => {
    const step = fc.record({
      queued: fc.array(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.constantFrom<LaneKind>(0, 1))),
      ends: fc.array(fc.tuple(fc.nat(), fc.constantFrom('good' as const, 'bad' as const))),
      writes: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 12 }), fc.array(step), (total, perEndpoint, steps) => {
        const lanes = createLanes({ total, perEndpoint });
        let queue: DueDelivery[] = [];
        let flights: { id: string; place: Place }[] = [];
        let unwritten: string[] = [];
        const started = new Set<string>();
        const turn = () => {
          const grants = lanes.grant();
          const rows = grants.flatMap(({ endpointId, kind, room }) =>
            queue.filter((each) => each.endpointId === endpointId && each.attempts === kind).slice(0, room),
          );
          lanes.filled(grants, leases(grants), rows, () => true);
          for (let start = lanes.next(); start !== undefined; start = lanes.next()) {
            if (started.has(start.delivery.id)) throw new Error('it was started twice');
            started.add(start.delivery.id);
            flights.push({ id: start.delivery.id, place: start.place });
          }
          for (const n of [0, 1, 2, 3, 4, 5]) {
            if (flights.filter(({ place }) => place.endpointId === `endpoint ${n}`).length > perEndpoint)
              throw new Error('too many to one');
          }
          if (flights.length > total || lanes.inFlight !== flights.length) throw new Error('too many in all');
        };
        const end = (at: number, result: 'good' | 'bad') => {
          const [flight] = flights.splice(at % Math.max(1, flights.length), 1);
          if (flight === undefined) return;
          lanes.free(flight.place, result);
          unwritten.push(flight.id);
        };
        const write = () => {
          queue = queue.filter(({ id }) => !unwritten.includes(id));
          lanes.done(unwritten);
          unwritten = [];
        };
        const sweep = () => {
          for (const { endpointId, attempts } of queue) lanes.found(endpointId, attempts === 0 ? 0 : 1, true);
        };
        for (const { queued, ends, writes } of steps) {
          for (const [endpoint, kind] of queued) queue.push(row(`endpoint ${endpoint}`, kind));
          sweep();
          turn();
          for (const [at, result] of ends) end(at, result);
          if (writes) write();
        }
        const all = queue.length + started.size;
        for (let round = 0; round <= 2 * all && queue.length > 0; round += 1) {
          sweep();
          turn();
          while (flights.length > 0) end(0, 'good');
          write();
        }
        flights = [];
        return queue.length === 0;
      }),
    );
    t.pass();
  },
);
