import t from 'tap';
import { createInHand } from '../../src/dispatch/in-hand.ts';
import { newEndpoint } from '../../src/dispatch/lane.ts';

void t.test('what is in hand is taken once, until it is written', async (t) => {
  const inHand = createInHand();
  const [lane] = newEndpoint('a').lanes;
  t.equal(inHand.take('1', lane), true);
  t.equal(inHand.take('1', lane), false);
  t.same([inHand.count, lane.known], [1, 1]);
  inHand.written(['1', 'of another']);
  t.same([inHand.count, lane.known], [0, 0]);
  t.equal(inHand.take('1', lane), true);
  inHand.drop('1');
  t.equal(inHand.count, 0);
});

void t.test('what is written while a read is under way stays in hand until it ends', async (t) => {
  const inHand = createInHand();
  const [lane] = newEndpoint('a').lanes;
  inHand.take('1', lane);
  inHand.readBegins();
  inHand.written(['1']);
  t.equal(inHand.take('1', lane), false, 'the read may have seen it before it was written');
  inHand.readEnds();
  t.equal(inHand.take('1', lane), true);
});
