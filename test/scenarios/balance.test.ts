import { pino } from 'pino';
import { Registry } from 'prom-client';
import t from 'tap';
import { generateKeypair } from '../../src/chain/keypair.ts';
import type { Context } from '../../src/keeper/base/context.ts';
import { createMetrics } from '../../src/keeper/base/metrics.ts';
import { keeperTimes } from '../../src/keeper/base/times.ts';
import { createBalance } from '../../src/keeper/guard/balance.ts';

/** A wallet whose balance the test sets, and the log messages about it. */
function walletWith(lamports: bigint) {
  const wallet = { lamports };
  const said: string[] = [];
  const keypair = generateKeypair();
  const keypairs = new Map([[keypair.address, keypair]]);
  const metrics = createMetrics(new Registry());
  const log = pino(
    { level: 'info' },
    { write: (line: string) => void said.push((JSON.parse(line) as { msg: string }).msg) },
  );
  const time = { ms: 0, reads: 0 };
  const rpc = {
    getBalance: async (address: string) => {
      time.reads += 1;
      return address === keypair.address ? wallet.lamports : 0n;
    },
  };
  const funds = createBalance(
    { rpc, log, metrics, keypair, keypairs, times: keeperTimes } as unknown as Context,
    () => time.ms,
  );
  const figures = async () => ({
    sol: (await metrics.sol.get()).values[0]?.value,
    alerts: (await metrics.alerts.get()).values
      .filter(({ value }) => value > 0)
      .map(({ labels, value }) => [labels.reason, value]),
  });
  return { wallet, funds, said, figures, time };
}

void t.test(
  "nothing is signed before the keeper's SOL balance is known or while it is below the cost of a batch",
  async (t) => {
    const { wallet, funds } = walletWith(4_999_999n);
    t.match(funds.shortage(), /not been read yet/);
    await funds.check(false);
    t.match(funds.shortage(), /is out of SOL \(0\.0049/);
    wallet.lamports = 5_000_000n;
    await funds.check(false);
    t.equal(funds.shortage(), undefined, 'low is not empty');
  },
);

void t.test(
  "each change of the keeper's SOL balance to low, empty or refilled is logged once",
  async (t) => {
    const { wallet, funds, said, figures, time } = walletWith(1_000_000_000n);
    for (const lamports of [
      1_000_000_000n,
      99_999_999n,
      50_000_000n,
      1_000_000n,
      0n,
      2_000_000_000n,
      3_000_000_000n,
    ]) {
      wallet.lamports = lamports;
      time.ms += 300_000;
      await funds.check(false);
      t.equal((await figures()).sol, Number(lamports) / 1e9);
    }
    t.match(said, [/low on SOL/, /out of SOL/, /enough SOL again/]);
    t.equal(said.length, 3);
    t.same((await figures()).alerts, [['keeper_out_of_sol', 1]]);
    wallet.lamports = 0n;
    time.ms += 300_000;
    await funds.check(false);
    t.same((await figures()).alerts, [['keeper_out_of_sol', 2]], 'once for each time');
  },
);

void t.test(
  'a sufficient balance is read every 5 min, or every minute while payments are sent; a low one every time',
  async (t) => {
    const { wallet, funds, time } = walletWith(1_000_000_000n);
    const readsAt = async (ms: number, isSpending: boolean) => {
      time.ms = ms;
      await funds.check(isSpending);
      return time.reads;
    };
    t.equal(await readsAt(0, false), 1);
    t.equal(await readsAt(299_999, false), 1);
    t.equal(await readsAt(299_999, true), 2);
    t.equal(await readsAt(359_998, true), 2);
    wallet.lamports = 10_000_000n;
    t.equal(await readsAt(359_999, true), 3);
    t.equal(await readsAt(360_000, false), 4);
  },
);

void t.test(
  'an empty former keeper key raises an alert and does not stop the other keys',
  async (t) => {
    const [inUse, former] = [generateKeypair(), generateKeypair()];
    const metrics = createMetrics(new Registry());
    const said: unknown[] = [];
    const log = pino(
      { level: 'info' },
      { write: (line: string) => void said.push(JSON.parse(line)) },
    );
    const lamports = new Map([
      [inUse.address, 1_000_000_000n],
      [former.address, 4_000_000n],
    ]);
    const funds = createBalance({
      rpc: { getBalance: async (address: string) => lamports.get(address) },
      log,
      metrics,
      times: keeperTimes,
      keypair: inUse,
      keypairs: new Map([inUse, former].map((keypair) => [keypair.address, keypair])),
    } as unknown as Context);
    await funds.check(false);
    t.equal(funds.shortage(), undefined);
    t.ok(funds.isEmpty(former.address));
    t.notOk(funds.isEmpty(inUse.address));
    const { values } = await metrics.sol.get();
    t.same(Object.fromEntries(values.map(({ labels, value }) => [labels.keeper, value])), {
      [inUse.address]: 1,
      [former.address]: 0.004,
    });
    t.match(said, [{ keeper: former.address, msg: /^keeper out of SOL/ }]);
    t.equal(said.length, 1);
  },
);

void t.test('a keeper wallet with enough SOL from the start is not logged', async (t) => {
  const { funds, said } = walletWith(100_000_000n);
  await funds.check(false);
  t.same(said, []);
});
