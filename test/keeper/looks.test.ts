import t from 'tap';
import { isWorthALook, type Looked } from '../../src/keeper/looks.ts';

const sent: Looked = { takenAt: 0, polledAt: 0, sends: 1, periodEnd: 1n, status: null, slot: null };
const silent = { slot: 0n, heardAt: -Infinity };
const confirmed = { slot: 7n, err: null, commitment: 'confirmed' } as const;

void t.test('a young transaction is looked for often, an old one every second', (t) => {
  t.notOk(isWorthALook(sent, silent, 100));
  t.ok(isWorthALook(sent, silent, 150));
  t.notOk(isWorthALook({ ...sent, polledAt: 10_000 }, silent, 10_900));
  t.ok(isWorthALook({ ...sent, polledAt: 10_000 }, silent, 11_000));
  t.end();
});

void t.test('what has landed is looked for as soon as it is rooted, and now and then before that', (t) => {
  for (const landed of [
    { ...sent, slot: 7n, polledAt: 10_000 },
    { ...sent, slot: 7n, status: confirmed, polledAt: 10_000 },
  ]) {
    t.notOk(isWorthALook(landed, { slot: 6n, heardAt: 12_000 }, 12_100));
    t.ok(isWorthALook(landed, { slot: 6n, heardAt: 12_400 }, 12_500), 'a fork may have dropped it');
    t.ok(isWorthALook(landed, { slot: 7n, heardAt: 12_000 }, 12_000));
    t.ok(isWorthALook(landed, { slot: 6n, heardAt: 9000 }, 11_000), 'the stream tells nothing any more');
  }
  t.end();
});

void t.test('what is final is not asked for, nor what was never sent, unless another process may have sent it', (t) => {
  t.notOk(isWorthALook({ ...sent, status: { ...confirmed, commitment: 'finalized' } }, silent, 60_000));
  t.notOk(isWorthALook({ ...sent, sends: 0 }, silent, 60_000));
  t.ok(isWorthALook({ ...sent, sends: 0, periodEnd: null }, silent, 60_000));
  t.end();
});
