import fc from 'fast-check';
import t from 'tap';
import { Json, toJson } from '../../../../src/local/chain/rpc/json.ts';

void t.test('values without a bigint are written as by JSON.stringify', async () => {
  fc.assert(
    fc.property(
      fc.jsonValue({ noUnicodeString: false }),
      (value) => toJson(value) === JSON.stringify(value),
    ),
  );
});

void t.test(
  'a bigint is written as a number of any size, and undefined members are omitted',
  async (t) => {
    t.equal(
      toJson({ rentEpoch: 2n ** 64n - 1n, list: [0n, -5n], gone: undefined }),
      '{"rentEpoch":18446744073709551615,"list":[0,-5]}',
    );
  },
);

void t.test('ready-made JSON is written unchanged at any place', async (t) => {
  t.equal(
    toJson({ value: [new Json('{"a": 1}'), null], other: new Json('7') }),
    '{"value":[{"a": 1},null],"other":7}',
  );
});
