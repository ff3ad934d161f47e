import t from 'tap';
import { currentTraceparent, ownTraceparent, parseTraceparent, withTrace } from '../src/trace.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

void t.test('a valid trace header of version 00 is used, any other is ignored', (t) => {
  const valid = `00-${TRACE}-${PARENT}-01`;
  for (const given of [valid, `cc-${TRACE}-${PARENT}-01`, `cc-${TRACE}-${PARENT}-01-what-follows`])
    t.same(parseTraceparent(given), { traceparent: valid, traceId: TRACE }, given);
  for (const given of [
    undefined,
    [valid],
    '',
    `${valid}-more`,
    `ff-${TRACE}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${TRACE.slice(1)}-${PARENT}-01`,
    `${valid}\r\nx: y`,
  ])
    t.equal(parseTraceparent(given), undefined, JSON.stringify(given));
  t.end();
});

void t.test('a trace applies to everything inside it, also after an await', async (t) => {
  const traceparent = `00-${TRACE}-${PARENT}-00`;
  t.equal(currentTraceparent(), null);
  await withTrace({ traceparent, traceId: TRACE }, async () => {
    await new Promise(setImmediate);
    t.equal(currentTraceparent(), traceparent);
  });
  t.equal(currentTraceparent(), null);
});

void t.test('an event without a trace uses its own id as the trace id', (t) => {
  const own = ownTraceparent('01985e2a-7c4b-7def-8123-456789abcdef');
  t.equal(own, '00-01985e2a7c4b7def8123456789abcdef-8123456789abcdef-01');
  t.ok(parseTraceparent(own));
  t.end();
});
