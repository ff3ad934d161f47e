import fc from 'fast-check';
import t from 'tap';
import { createBlockTimes } from '../../../src/chain/rpc/block-times.ts';
import { EndpointFailure, RpcError, RpcUnreachable } from '../../../src/chain/rpc/errors.ts';

void t.test(
  'every block gets its own time, and blocks of the same second are not requested one by one',
  async (t) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(2000), { maxLength: 60 }),
        fc.integer({ min: 1, max: 400 }),
        async (slots, perSecond) => {
          let asked = 0;
          const timeAt = (slot: bigint) => 1_800_000_000n + slot / BigInt(perSecond);
          const blockTimes = createBlockTimes({
            getBlockTime: (slot) => Promise.resolve(((asked += 1), timeAt(slot))),
          });
          const wanted = slots.map(BigInt);
          const times = await blockTimes(wanted);
          for (const slot of wanted)
            if (times.get(slot) !== timeAt(slot)) throw new Error(`slot ${slot} has another time`);
          const seconds = new Set(wanted.map(timeAt)).size;
          // The first and the last block of each second at the most, and a few to find where it
          // ends.
          if (asked > Math.min(new Set(slots).size, 14 * seconds))
            throw new Error(`${asked} requests for ${seconds} seconds`);
        },
      ),
    );
    t.pass();
  },
);

void t.test(
  'an error for one block leaves its time unknown; an outage stops the requests',
  async (t) => {
    const asked: bigint[] = [];
    const failing = (error: Error) =>
      createBlockTimes({
        getBlockTime: (slot) => {
          asked.push(slot);
          return slot === 2n ? Promise.reject(error) : Promise.resolve(1_800_000_000n + slot);
        },
      });
    const slots = [1n, 2n, 3n, 4n];
    const errors = [
      new RpcError('endpoint', 'getBlockTime', -32009, 'skipped'),
      new RpcUnreachable('getBlockTime', [new EndpointFailure('behind', 'not available')]),
    ];
    for (const error of errors)
      t.same([...(await failing(error)(slots)).keys()].sort(), [1n, 3n, 4n], error.message);
    asked.length = 0;
    const outage = new RpcUnreachable('getBlockTime', [
      new EndpointFailure('timeout', 'no response'),
    ]);
    t.same([...(await failing(outage)(slots)).keys()].sort(), [1n, 4n]);
    t.notOk(asked.includes(3n));
    await t.rejects(failing(new TypeError('a bug'))(slots), TypeError);
  },
);

void t.test(
  'a block without a time from any endpoint stays unknown and is requested again',
  async (t) => {
    let isReported = false;
    const blockTimes = createBlockTimes({
      getBlockTime: (slot) =>
        Promise.resolve(isReported || slot !== 2n ? 1_800_000_000n + slot : null),
    });
    t.equal((await blockTimes([1n, 2n, 3n])).get(2n), undefined);
    isReported = true;
    t.equal((await blockTimes([1n, 2n, 3n])).get(2n), 1_800_000_002n);
  },
);
