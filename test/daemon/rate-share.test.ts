// Shares of one rate, by leases in Postgres.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import t, { type Test } from 'tap';
import { type RateShare, startRateShare } from '../../src/daemon/rate-share.ts';
import { endLease, renewLease } from '../../src/db/operating/rate-leases.ts';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { daemonLimits } from '../../src/db/postgres/settings.ts';
import { createLog } from '../../src/log.ts';
import { asRole, testDatabase } from '../fixtures/postgres.ts';
import { startProxy } from '../fixtures/proxy.ts';
import { until } from '../fixtures/webhooks.ts';

const log = createLog('test', { level: 'silent', pretty: false, stream: 'stderr' });
const RATE = 10;

/** Joins; stops with the test. */
async function join(t: Test, sql: Sql, rate = RATE): Promise<RateShare> {
  const share = await startRateShare('rpc', rate, { sql, log });
  t.teardown(() => share.stop());
  return share;
}

const sorted = (shares: RateShare[]) => shares.map((share) => share.now()).sort((a, b) => b - a);

/** Watches the sum of the shares; what it returns checks that they never exceeded the rate. */
function watch(t: Test, shares: RateShare[]): () => void {
  let most = 0;
  const look = () => {
    most = Math.max(
      most,
      shares.reduce((sum, share) => sum + share.now(), 0),
    );
  };
  const timer = setInterval(look, 5);
  t.teardown(() => clearInterval(timer));
  return () => t.ok(most <= RATE, `${most} at once`);
}

void t.test('three processes each get a third of the rate, never more together', async (t) => {
  const { url } = await testDatabase(t);
  const sql = connect(asRole(url, 'keeper'), { max: 3, name: 'billing test' });
  t.teardown(() => sql.end({ timeout: 1 }));
  const shares: RateShare[] = [];
  const check = watch(t, shares);
  shares.push(await join(t, sql));
  t.same(sorted(shares), [RATE], 'one alone has it all at once');
  shares.push(await join(t, sql), await join(t, sql));
  await until(() => sorted(shares).join() === '4,3,3');
  await shares.pop()?.stop();
  await until(() => sorted(shares).join() === '5,5');
  check();
});

void t.test(
  'a rate of 0 means no limit, and a rate below the number of processes leaves some without',
  async (t) => {
    const { sql } = await testDatabase(t);
    t.equal((await join(t, sql, 0)).now(), Infinity);
    t.same(await sql`select from rate_leases`, []);
    const shares = [await join(t, sql, 1), await join(t, sql, 1)];
    await until(() => sorted(shares).join() === '1,0');
  },
);

void t.test(
  'without Postgres a process stops using its share when the lease ends, before others get it',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const proxy = await startProxy(t, Number(new URL(url).port));
    const wire = new URL(url);
    wire.port = String(proxy.port);
    const cut = connect(wire.href, { max: 1, name: 'billing test', limits: daemonLimits });
    t.teardown(() => cut.end({ timeout: 1 }));
    const lost = await join(t, cut);
    proxy.cut();
    const next = await join(t, sql);
    const check = watch(t, [lost, next]);
    t.same([lost.now(), next.now()], [RATE, 0]);
    await until(() => lost.now() === 0);
    await until(() => next.now() === RATE);
    check();
  },
);

void t.test('the rate share of a process that died on this machine is free at once', async (t) => {
  const { sql } = await testDatabase(t);
  const first = await join(t, sql);
  const [row] = await sql<{ place: string | null }[]>`select place from rate_leases`;
  if (row?.place === null) return;
  await first.stop();
  const child = spawn(process.execPath, ['--version'], { stdio: 'ignore' });
  await once(child, 'exit');
  const dead = { name: 'rpc', holder: '00000000-0000-7000-8000-000000000000' };
  await renewLease(sql, {
    ...dead,
    place: row?.place ?? null,
    pid: child.pid ?? 0,
    rate: RATE,
    holds: RATE,
    // Far longer than the file may take.
    leaseMs: 3_600_000,
  });
  const next = await join(t, sql);
  t.equal(next.now(), 0, 'its last requests still count');
  await until(() => next.now() === RATE);
});

void t.test(
  'a reduced rate share is given to others only after its holder has reported the reduction',
  async (t) => {
    const { sql } = await testDatabase(t);
    const [one, other] = [
      { name: 'rpc', holder: '00000000-0000-7000-8000-000000000001', place: null, pid: 1 },
      { name: 'rpc', holder: '00000000-0000-7000-8000-000000000002', place: null, pid: 2 },
    ];
    const renew = (who: typeof one, holds: number) =>
      renewLease(sql, { ...who, rate: RATE, holds, leaseMs: 3_600_000 });
    t.same(await renew(one, 0), { granted: 10, holders: 1 });
    t.same(await renew(other, 0), { granted: 0, holders: 2 });
    t.same(await renew(one, 10), { granted: 5, holders: 2 });
    t.same(await renew(other, 0), { granted: 0, holders: 2 }, 'it may still use ten');
    t.same(await renew(one, 5), { granted: 5, holders: 2 });
    t.same(await renew(other, 0), { granted: 5, holders: 2 });
    await endLease(sql, one, 0);
    t.same(await renew(other, 5), { granted: 10, holders: 1 });
  },
);
