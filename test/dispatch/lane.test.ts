import t from 'tap';
import { kinds, laneStart, lanesByStanding, newEndpoint, standings } from '../../src/dispatch/lane.ts';

void t.test('an endpoint that nothing is known of: one request at a time, no lease, two empty lanes that begin before every row', (t) => {
  const endpoint = newEndpoint('endpoint');
  t.match(endpoint, { id: 'endpoint', window: 1, standing: 'unknown', inFlight: 0, lease: undefined, pausedUntil: 0, leaving: false });
  t.ok(Math.abs(performance.now() - endpoint.usedAt) < 10_000, 'used just now: not to be forgotten at once');
  t.same(
    endpoint.lanes.map(({ kind }) => kind),
    kinds,
  );
  for (const lane of endpoint.lanes) {
    t.equal(lane.endpoint, endpoint);
    t.match(lane, { due: false, ready: [], target: 0, known: 0, after: laneStart, servedAt: 0 });
  }
  t.not(endpoint.lanes[0].ready, endpoint.lanes[1].ready);
  t.end();
});

void t.test('those that answer come first, those that fail last; each set keeps its own lanes in the order in which they came', (t) => {
  t.same(standings, ['answers', 'unknown', 'fails']);
  const sets = lanesByStanding();
  t.same(Object.keys(sets), standings);
  const [first, second] = [newEndpoint('z').lanes[0], newEndpoint('a').lanes[1]];
  for (const lane of [first, second, first]) sets.answers.add(lane);
  t.same([...sets.answers], [first, second]);
  t.equal(sets.unknown.size + sets.fails.size + lanesByStanding().answers.size, 0);
  t.end();
});
