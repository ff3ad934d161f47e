import t from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc-errors.ts';
import { splitBatch } from '../../src/keeper/claim.ts';

void t.test(
  'a fault of one item is told of that item alone, and the others are done',
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
  "an outage is nobody's fault: it is thrown, and nothing is tried one by one",
  async (t) => {
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
  },
);
