import t from 'tap';
import { createLoad } from '../../src/dispatch/load.ts';

void t.test('the load is the share of places that are taken, or of the time in which the event loop had work', async (t) => {
  let places = 0.5;
  const load = createLoad(() => places);
  t.equal(load(), 0.5);
  places = 0;
  t.equal(load(), 0, 'not measured yet');
  const started = performance.now();
  while (performance.now() - started < 1100) Math.sqrt(started);
  t.ok(load() > 0.9, 'nothing but work for a second');
  places = 1;
  t.equal(load(), 1);
});
