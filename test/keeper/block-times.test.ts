import fc from 'fast-check';
import t from 'tap';
import { createBlockTimes } from '../../src/keeper/block-times.ts';

void t.test('every block gets its own time, and blocks of one second are not asked for one by one', async (t) => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(2000), { maxLength: 60 }), fc.integer({ min: 1, max: 400 }), async (slots, perSecond) => {
      let asked = 0;
      const timeAt = (slot: bigint) => 1_800_000_000n + slot / BigInt(perSecond);
      const blockTimes = createBlockTimes({ getBlockTime: (slot) => Promise.resolve(((asked += 1), timeAt(slot))) });
      const wanted = slots.map(BigInt);
      const times = await blockTimes(wanted);
      for (const slot of wanted) if (times.get(slot) !== timeAt(slot)) throw new Error(`slot ${slot} has another time`);
      const seconds = new Set(wanted.map(timeAt)).size;
      // The first and the last block of each second at the most, and a few to find where it ends.
      if (asked > Math.min(new Set(slots).size, 14 * seconds)) throw new Error(`${asked} requests for ${seconds} seconds`);
    }),
  );
  t.pass();
});

void t.test('a block that no endpoint tells of stays unknown, and is asked for again', async (t) => {
  let told = false;
  const blockTimes = createBlockTimes({ getBlockTime: (slot) => Promise.resolve(told || slot !== 2n ? 1_800_000_000n + slot : null) });
  t.equal((await blockTimes([1n, 2n, 3n])).get(2n), undefined);
  told = true;
  t.equal((await blockTimes([1n, 2n, 3n])).get(2n), 1_800_000_002n);
});
