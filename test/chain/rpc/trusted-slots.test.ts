// A slot is believed if the slot of another endpoint and the time since then explain it.
import t from 'tap';
import { TrustedSlots } from '../../../src/chain/rpc/trusted-slots.ts';

const START = 1_800_000_000;

function setup() {
  let seconds = 0;
  const reported: bigint[] = [];
  const trusted = new TrustedSlots({
    machineSeconds: () => START + seconds,
    monotonicMs: () => seconds * 1000,
    onDisbelief: (slot) => reported.push(slot),
  });
  const believes = (endpoint: object, slot: number) => {
    try {
      trusted.check(endpoint, { context: { slot }, value: null });
      return true;
    } catch {
      return false;
    }
  };
  const report = (endpoint: object, slot: number, off = 0) =>
    trusted.record(endpoint, {
      slot: BigInt(slot),
      unixTimestamp: BigInt(START + seconds + off),
    });
  return { trusted, reported, believes, report, pass: (by: number) => (seconds += by) };
}

const [one, other, third] = [{}, {}, {}];

void t.test(
  "a single endpoint's first slot is trusted, later slots only if the elapsed time explains them",
  async (t) => {
    const { believes, reported, pass } = setup();
    t.equal(believes(one, 5000), true);
    t.equal(believes(one, 5301), false);
    t.equal(believes(one, 5300), true);
    t.equal(believes(one, 100), true, 'an older one is not ahead');
    pass(60);
    t.equal(believes(one, 1001), false, 'it counts from its last slot');
    t.equal(believes(one, 1000), true);
    t.same(reported, [5301n], 'one report an hour');
    pass(3600);
    t.equal(believes(one, 1_000_000), false);
    t.same(reported, [5301n, 1_000_000n]);
  },
);

void t.test(
  'an endpoint’s slot is compared with the slots of other endpoints, not with its own last slot',
  async (t) => {
    const { believes, report, pass } = setup();
    report(one, 5000);
    report(other, 1_000_000);
    t.equal(believes(other, 1_000_000), false, 'it lies');
    t.equal(believes(one, 5001), true);
    pass(10);
    t.equal(believes(other, 5400), true);
    t.equal(believes(other, 5401), false);
  },
);

void t.test(
  'two endpoints that agree on a slot are trusted, whatever either of them reported before',
  async (t) => {
    const { believes, report } = setup();
    report(one, 5000);
    report(other, 5000);
    t.equal(believes(one, 90_000), false);
    report(one, 90_000);
    report(other, 90_000);
    t.equal(believes(one, 90_001), true);
    report(third, 4_000_000);
    t.equal(believes(third, 4_000_000), false);
  },
);

void t.test('an endpoint that hung or catches up is recognised by its old clock', async (t) => {
  const { believes, report } = setup();
  report(one, 1000, -3600);
  t.equal(believes(other, 1000 + 9000), true, 'an hour of slots');
  t.equal(believes(other, 1_000_000), false);
});

void t.test('the check of slots skips a response without a context slot', async (t) => {
  const { trusted, report } = setup();
  report(one, 5);
  for (const result of [null, 5, 'x', {}, { context: null }, { context: { slot: 'x' } }])
    t.doesNotThrow(() => trusted.check(other, result));
});
