import t from 'tap';
import { RpcUnreachable } from '../../../src/chain/rpc/errors.ts';
import { splitBatch } from '../../../src/keeper/base/split-batch.ts';

void t.test(
  'a failing item of a batch is reported alone, and the other items are processed',
  async (t) => {
    const done: number[] = [];
    const faulty: number[] = [];
    const work = async (items: readonly number[]) => {
      if (items.includes(3)) throw new RangeError('three');
      done.push(...items);
    };
    await splitBatch([1, 2, 3, 4], work, (item) => void faulty.push(item));
    t.same([done, faulty], [[1, 2, 4], [3]]);
  },
);

void t.test(
  'one bad row of 256 is isolated in a few batches, not with a call per row',
  async (t) => {
    const rows = Array.from({ length: 256 }, (_, n) => n);
    const faulty: number[] = [];
    let calls = 0;
    const work = async (items: readonly number[]) => {
      calls += 1;
      if (items.includes(77)) throw new RangeError('seventy-seven');
    };
    await splitBatch(rows, work, (row) => void faulty.push(row));
    t.same(faulty, [77]);
    t.equal(calls, 2 * Math.log2(rows.length) + 1);
  },
);

void t.test('an outage is thrown without splitting the batch', async (t) => {
  let calls = 0;
  const work = async () => {
    calls += 1;
    throw new RpcUnreachable('getSlot', []);
  };
  await t.rejects(
    splitBatch([1, 2], work, () => undefined),
    RpcUnreachable,
  );
  t.equal(calls, 1);
});
