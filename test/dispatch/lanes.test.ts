import fc from 'fast-check';
import t from 'tap';
import type { ClaimedDelivery, Grant, LaneKind } from '../../src/db/deliveries.ts';
import { createLanes, type Lanes, type Place } from '../../src/dispatch/lanes.ts';

function rows(grants: Grant[], room = (grant: Grant) => grant.room): ClaimedDelivery[] {
  return grants.flatMap((grant) =>
    Array.from({ length: room(grant) }, (_, index) => ({
      id: `${grant.endpointId} ${grant.kind} ${index}`,
      endpointId: grant.endpointId,
      eventId: '',
      attempts: grant.kind,
      dueAt: 1,
      body: '',
      endpointDeleted: false,
    })),
  );
}

/** Claims what is granted, all of it there, and takes the places. */
function fill(lanes: Lanes): Place[] {
  const grants = lanes.grant();
  const claimed = rows(grants);
  lanes.claimed(grants, claimed);
  return claimed.map(({ endpointId, attempts }) => lanes.take(endpointId, attempts === 0 ? 0 : 1));
}

/** Grows an endpoint's window to its cap by answering well. */
function prove(lanes: Lanes, endpointId: string): void {
  for (let round = 0; round < 20; round += 1) {
    lanes.found(endpointId, 0, false);
    for (const place of fill(lanes)) lanes.free(place, 'good');
  }
  // The lane was filled each time, so there may be more: this claim finds nothing.
  lanes.claimed(lanes.grant(), []);
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
});

void t.test('an endpoint that keeps failing is probed by one request at a time, and gets its places back when it answers', async (t) => {
  const lanes = createLanes({ total: 100, perEndpoint: 10 });
  prove(lanes, 'a');
  for (let round = 0; round < 5; round += 1) {
    lanes.found('a', 0, false);
    for (const place of fill(lanes)) lanes.free(place, 'bad');
  }
  lanes.found('a', 0, false);
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

void t.test('the endpoint that was served last comes last', async (t) => {
  const lanes = createLanes({ total: 4, perEndpoint: 2 });
  const served: string[] = [];
  for (const id of ['a', 'b', 'c', 'd']) lanes.found(id, 0, true);
  for (let round = 0; round < 4; round += 1) {
    const places = fill(lanes);
    served.push(...new Set(places.map(({ endpointId }) => endpointId)));
    for (const place of places) lanes.free(place, 'good');
  }
  t.same(new Set(served.slice(0, 4)), new Set(['a', 'b', 'c', 'd']));
});

void t.test('a lane is claimed from where the last claim ended, and from its beginning after a sweep', async (t) => {
  const lanes = createLanes({ total: 10, perEndpoint: 10 });
  lanes.found('a', 0, true);
  const grants = lanes.grant();
  t.equal(grants[0]?.from, 0);
  lanes.claimed(
    grants,
    rows(grants).map((row, index) => ({ ...row, dueAt: 1000 + index })),
  );
  t.equal(lanes.grant()[0]?.from, 1000);
  lanes.found('a', 0, true);
  t.equal(lanes.grant()[0]?.from, 0);
});

void t.test('a notification that comes during a claim is not lost', async (t) => {
  const lanes = createLanes({ total: 10, perEndpoint: 10 });
  lanes.found('a', 0, true);
  const grants = lanes.grant();
  lanes.found('a', 0, false);
  lanes.claimed(grants, []);
  t.equal(lanes.grant().length, 1);
});

void t.test('whatever happens, no more is in flight than the caps allow, and places are neither lost nor made', async (t) => {
  const step = fc.record({
    found: fc.array(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.constantFrom<LaneKind>(0, 1))),
    there: fc.integer({ min: 0, max: 10 }),
    ends: fc.array(fc.tuple(fc.nat(), fc.constantFrom('good' as const, 'bad' as const, 'unsent' as const))),
  });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 12 }), fc.array(step), (total, perEndpoint, steps) => {
      const lanes = createLanes({ total, perEndpoint });
      const places: Place[] = [];
      for (const { found, there, ends } of steps) {
        for (const [endpoint, kind] of found) lanes.found(`endpoint ${endpoint}`, kind, true);
        const grants = lanes.grant();
        const claimed = rows(grants, ({ room }) => Math.min(room, there));
        lanes.claimed(grants, claimed);
        for (const { endpointId, attempts } of claimed) places.push(lanes.take(endpointId, attempts === 0 ? 0 : 1));
        const busiest = Math.max(
          0,
          ...[0, 1, 2, 3, 4, 5].map((n) => places.filter((place) => place.endpointId === `endpoint ${n}`).length),
        );
        if (places.length > total || busiest > perEndpoint || lanes.inFlight !== places.length) return false;
        for (const [at, result] of ends) {
          const [place] = places.splice(at % Math.max(1, places.length), 1);
          if (place !== undefined) lanes.free(place, result);
        }
      }
      return lanes.inFlight === places.length;
    }),
  );
  t.pass();
});
