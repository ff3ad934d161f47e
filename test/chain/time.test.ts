import t from 'tap';
import { RpcUnreachable } from '../../src/chain/rpc/errors.ts';
import { createChainClock } from '../../src/chain/time.ts';

/** A chain with a time set by the test, which counts the requests. */
function chainAt(seconds: bigint) {
  const chain = { seconds, asked: 0, away: false };
  const getClock = async () => {
    chain.asked += 1;
    if (chain.away) throw new RpcUnreachable('getClock', []);
    return { slot: 1n, unixTimestamp: chain.seconds };
  };
  return { chain, rpc: { getClock } };
}

const at = (seconds: bigint) => new Date(Number(seconds) * 1000);

void t.test('callers that accept clock readings of the same age share one request', async (t) => {
  const { chain, rpc } = chainAt(100n);
  const clock = createChainClock(rpc, { silentMs: 60_000 });
  t.same(await Promise.all([clock.now(), clock.now(), clock.now()]), [
    at(100n),
    at(100n),
    at(100n),
  ]);
  chain.seconds = 200n;
  t.same(await clock.now(), at(100n));
  t.equal(chain.asked, 1);
});

void t.test(
  'a clock reading that is older than the caller accepts is requested again',
  async (t) => {
    const { chain, rpc } = chainAt(100n);
    const clock = createChainClock(rpc, { silentMs: -1 });
    await clock.now();
    chain.seconds = 101n;
    t.same(await clock.now(), at(101n));
  },
);

void t.test('the clock never runs backwards, behind a lagging endpoint or a fork', async (t) => {
  const { chain, rpc } = chainAt(100n);
  const clock = createChainClock(rpc, { silentMs: -1 });
  await clock.now();
  chain.seconds = 90n;
  t.same(await clock.now(), at(100n));
  clock.observe(95n);
  t.same(await clock.now(), at(100n));
  clock.observe(120n);
  t.same(await clock.now(), at(120n));
});

void t.test(
  'a time observed with accounts does not replace the first request for the clock',
  async (t) => {
    const { chain, rpc } = chainAt(100n);
    const clock = createChainClock(rpc, { silentMs: 60_000 });
    clock.observe(50n);
    t.same(await clock.now(), at(100n));
    t.equal(chain.asked, 1);
  },
);

void t.test(
  'an unreachable chain is an error for the caller, and the next call asks again',
  async (t) => {
    const { chain, rpc } = chainAt(100n);
    const clock = createChainClock(rpc, { silentMs: 60_000 });
    chain.away = true;
    await t.rejects(clock.now(), RpcUnreachable);
    chain.away = false;
    t.same(await clock.now(), at(100n));
  },
);

void t.test(
  'while slots arrive, the clock is extrapolated from one reading; a larger step of slots causes a new read',
  async (t) => {
    let ms = 0;
    const { chain, rpc } = chainAt(100n);
    const clock = createChainClock(rpc, { monotonicMs: () => ms });
    await clock.now();
    for (let seconds = 1n; seconds <= 290n; seconds += 1n) {
      ms += 1000;
      t.equal(clock.slot(1000n + 3n * seconds), false);
      t.same(await clock.now(), at(100n + seconds));
    }
    t.equal(chain.asked, 1);
    chain.seconds = 5000n;
    t.equal(clock.slot(1000n + 3n * 290n + 100n), true, 'time was moved, or the stream was off');
    t.same(await clock.now(), at(5000n));
    t.equal(chain.asked, 2);
  },
);

void t.test(
  'a clock reading right after a jump is read again, because the endpoint may lag',
  async (t) => {
    let ms = 0;
    const { chain, rpc } = chainAt(100n);
    const clock = createChainClock(rpc, { monotonicMs: () => ms });
    clock.slot(1000n);
    await clock.now();
    ms += 1000;
    t.equal(clock.slot(9000n), true);
    ms += 50;
    t.same(await clock.now(), at(100n), 'the endpoint shows the time before the jump');
    chain.seconds = 5000n;
    // As long as Postgres was silent, the keeper did not ask for the time.
    for (let slot = 9003n; slot < 9063n; slot += 3n) {
      ms += 1000;
      clock.slot(slot);
    }
    t.same(await clock.now(), at(5000n));
    for (let slot = 9063n; slot < 9363n; slot += 3n) {
      ms += 1000;
      clock.slot(slot);
      await clock.now();
    }
    t.equal(chain.asked, 3, 'and then it is carried on as before');
  },
);

void t.test('while no slot arrives the clock is read every five seconds', async (t) => {
  let ms = 0;
  const { chain, rpc } = chainAt(100n);
  const clock = createChainClock(rpc, { monotonicMs: () => ms });
  for (; ms <= 60_000; ms += 1000) await clock.now();
  t.ok(chain.asked >= 10 && chain.asked <= 13, `${chain.asked} requests in a minute`);
  t.same(await clock.now(), at(105n), 'no further than a reading is carried on');
});
