import fc from 'fast-check';
import t from 'tap';
import type { DueDelivery, Grant, LaneKind } from '../../src/db/deliveries.ts';
import { createLanes, type Lanes } from '../../src/dispatch/lanes.ts';
import type { Lease } from '../../src/dispatch/leases.ts';
import type { Place } from '../../src/dispatch/places.ts';

let made = 0;

function row(endpointId: string, kind: LaneKind, dueAt = 1): DueDelivery {
  made += 1;
  return { id: `delivery ${made}`, endpointId, eventId: '', attempts: kind, dueAt, body: Buffer.alloc(0), endpointDeleted: false };
}

function leases(grants: readonly Grant[], sendBefore = Infinity): Map<string, Lease> {
  return new Map(grants.map(({ endpointId }) => [endpointId, { claimId: 'a claim', sendBefore, wanted: false }]));
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
  const grants = lanes.grant();
  const rows = grants.flatMap(({ endpointId, kind, room }) => Array.from({ length: room }, () => row(endpointId, kind)));
  lanes.filled(grants, leases(grants), rows, () => true);
  return starts(lanes);
}

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

void t.test('no more is read while too much waits to be written, and on at once when it is', async (t) => {
  const lanes = createLanes({ total: 100, perEndpoint: 100 });
  const unwritten: string[] = [];
  for (let round = 0; lanes.hungry || round === 0; round += 1) {
    if (round > 1000) throw new Error('it never stops reading');
    lanes.found('a', 0, false);
    const grants = lanes.grant();
    if (grants.length === 0) break;
    const rows = grants.flatMap(({ room }) => Array.from({ length: room }, () => row('a', 0)));
    lanes.filled(grants, leases(grants), rows, () => true);
    for (let start = lanes.next(); start !== undefined; start = lanes.next()) {
      unwritten.push(start.delivery.id);
      lanes.free(start.place, 'good');
    }
  }
  t.ok(unwritten.length >= 4000 && unwritten.length <= 5000, `${unwritten.length} were sent`);
  lanes.done(unwritten.splice(0, 1000));
  t.equal(lanes.hungry, true);
  t.equal(lanes.grant().length, 1);
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
            if (flights.filter(({ place }) => place.endpoint.id === `endpoint ${n}`).length > perEndpoint)
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

/** Endpoints that have answered, one place for all of them, and two deliveries of each read under a lease of its own. */
function answering(ids: readonly string[]) {
  const lanes = createLanes({ total: 1, perEndpoint: 5 });
  const held = new Map(ids.map((id): [string, Lease] => [id, { claimId: id, sendBefore: Infinity, wanted: false }]));
  const read = (each = 2) => {
    const grants = lanes.grant();
    const rows = grants.flatMap(({ endpointId }) => Array.from({ length: each }, () => row(endpointId, 0)));
    lanes.filled(grants, held, rows, () => true);
    return grants.map(({ endpointId }) => endpointId);
  };
  const serve = () => {
    const start = lanes.next();
    if (start !== undefined) {
      lanes.free(start.place, 'good');
      lanes.done([start.delivery.id]);
    }
    return start?.delivery.endpointId;
  };
  for (const id of ids) {
    lanes.found(id, 0, true);
    read(1);
    serve();
    read(0);
  }
  for (const id of ids) lanes.found(id, 0, true);
  return { lanes, held, read, serve };
}

void t.test('what is read again keeps its turn, whoever was served meanwhile', async (t) => {
  const { held, lanes, read, serve } = answering(['a', 'b', 'c', 'd']);
  t.same(read(), ['a', 'b', 'c', 'd']);
  t.equal(serve(), 'a');
  held.get('b')!.sendBefore = 0;
  t.equal(serve(), 'c');
  t.ok(lanes.hungry);
  held.get('b')!.sendBefore = Infinity;
  t.ok(read().includes('b'));
  t.same([serve(), serve(), serve(), serve()], ['b', 'd', 'a', 'c']);
});

void t.test('what is read again and is not there any more, or is another dispatcher’s by now, stands in nobody’s way', async (t) => {
  const { held, lanes, serve, read } = answering(['a', 'b']);
  read();
  held.get('a')!.sendBefore = 0;
  t.equal(serve(), 'b');
  lanes.filled(lanes.grant(), new Map([['b', held.get('b')!]]), [], () => true);
  t.equal(serve(), 'b');
  t.equal(serve(), undefined);
  lanes.leave('a');
  t.same(lanes.left(0), ['a']);
});

void t.test('where more lanes are due than one read takes, the next follows at once', async (t) => {
  const ids = Array.from({ length: 700 }, (_, number) => `endpoint ${number}`);
  const { lanes } = answering(ids);
  const first = lanes.grant();
  lanes.filled(first, leases(first), [], () => true);
  t.ok(first.length < ids.length);
  t.ok(lanes.hungry);
  const second = lanes.grant();
  t.equal(first.length + second.length, ids.length);
  t.notOk(lanes.hungry);
});

void t.test('a read that failed holds back nothing of what was written meanwhile', async (t) => {
  const lanes = createLanes({ total: 10, perEndpoint: 10 });
  const only = row('a', 0);
  lanes.found('a', 0, true);
  const grants = lanes.grant();
  lanes.filled(grants, leases(grants), [only], () => true);
  const start = lanes.next();
  lanes.found('a', 0, true);
  lanes.grant();
  lanes.free(start!.place, 'good');
  lanes.done([only.id]);
  lanes.failed();
  lanes.leave('a');
  t.same(lanes.left(0), ['a']);
});
