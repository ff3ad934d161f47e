import t from 'tap';
import type { LaneKind } from '../../src/db/deliveries.ts';
import { newEndpoint, type Endpoint } from '../../src/dispatch/lane.ts';
import { createPlaces, type Place, type Places } from '../../src/dispatch/places.ts';

/** Gives the endpoint `count` deliveries that are ready to be sent. */
function offer(places: Places, endpoint: Endpoint, count: number, kind: LaneKind = 0): void {
  const lane = endpoint.lanes[kind];
  lane.ready = Array.from({ length: count }, (_, index) => ({
    id: `${endpoint.id} ${kind} ${index}`,
    endpointId: endpoint.id,
    eventId: '',
    attempts: kind,
    dueAt: 1,
    body: Buffer.alloc(0),
    endpointDeleted: false,
  }));
  places.sort(lane);
}

/** Takes every place that may be taken. */
function fill(places: Places): Place[] {
  const taken: Place[] = [];
  for (let lane = places.pick(); lane !== undefined; lane = places.pick()) {
    lane.ready.shift();
    taken.push(places.take(lane));
  }
  return taken;
}

/** Grows an endpoint's window to its cap by answering well; nothing of it is left. */
function prove(places: Places, endpoint: Endpoint): void {
  for (let round = 0; round < 20; round += 1) {
    offer(places, endpoint, 1);
    for (const place of fill(places)) places.free(place, 'good');
  }
}

function proven(places: Places, count: number): Endpoint[] {
  const endpoints = Array.from({ length: count }, (_, index) => newEndpoint(`endpoint ${index}`));
  for (const endpoint of endpoints) prove(places, endpoint);
  return endpoints;
}

void t.test('an endpoint gets one place at first, more with each success, and the cap at the most', async (t) => {
  const places = createPlaces({ total: 100, perEndpoint: 10 });
  const endpoint = newEndpoint('a');
  offer(places, endpoint, 100);
  let held = fill(places);
  t.equal(held.length, 1);
  for (const place of held) places.free(place, 'good');
  held = fill(places);
  t.equal(held.length, 2);
  for (let round = 0; round < 5; round += 1) {
    for (const place of held) places.free(place, 'good');
    held = fill(places);
  }
  t.equal(held.length, 10);
  t.equal(fill(places).length, 0, 'what else is ready waits');
});

void t.test('an endpoint that keeps failing is probed by one request at a time, and gets its places back when it answers', async (t) => {
  const places = createPlaces({ total: 100, perEndpoint: 10 });
  const [endpoint] = proven(places, 1) as [Endpoint];
  offer(places, endpoint, 100);
  for (let round = 0; round < 2; round += 1) for (const place of fill(places)) places.free(place, 'bad');
  const probe = fill(places);
  t.equal(probe.length, 1);
  t.equal(fill(places).length, 0, 'nothing beside the probe');
  for (const place of probe) places.free(place, 'good');
  t.equal(fill(places).length, 2);
});

void t.test('endpoints that nothing is known of share half of the places, those that fail a quarter', async (t) => {
  const places = createPlaces({ total: 40, perEndpoint: 10 });
  const [good] = proven(places, 1) as [Endpoint];
  for (let index = 0; index < 50; index += 1) offer(places, newEndpoint(`hung ${index}`), 2);
  const unknown = fill(places);
  t.equal(unknown.length, 20);
  t.equal(places.left('unknown'), -30, 'thirty wait for none');
  t.equal(places.left('fails'), 10);
  for (const place of unknown) places.free(place, 'bad');
  // Twenty of them fail now, of which ten may be probed at once; twenty of the other thirty get the places of those that nothing is known of.
  const held = fill(places);
  t.equal(held.filter(({ standing }) => standing === 'fails').length, 10);
  t.equal(held.filter(({ standing }) => standing === 'unknown').length, 20);
  offer(places, good, 10);
  t.equal(fill(places).length, 5, 'the rest of what first sendings may take');
});

void t.test('first sendings and retries leave an eighth of the places to each other', async (t) => {
  const places = createPlaces({ total: 80, perEndpoint: 10 });
  const endpoints = proven(places, 20);
  for (const endpoint of endpoints) offer(places, endpoint, 10, 1);
  t.equal(fill(places).length, 70);
  for (const endpoint of endpoints) offer(places, endpoint, 10, 0);
  const fresh = fill(places);
  t.equal(fresh.length, 10);
  t.ok(fresh.every(({ kind }) => kind === 0));
});

void t.test('places go to the lane that was served longest ago', async (t) => {
  const places = createPlaces({ total: 4, perEndpoint: 2 });
  for (const endpoint of proven(places, 4)) offer(places, endpoint, 100);
  const served: string[] = [];
  for (let round = 0; round < 4; round += 1) {
    const held = fill(places);
    served.push(...held.map(({ endpoint }) => endpoint.id));
    for (const place of held) places.free(place, 'good');
  }
  t.equal(served.length, 16);
  for (const id of new Set(served)) t.equal(served.filter((each) => each === id).length, 4, id);
});
