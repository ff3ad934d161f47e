import t from 'tap';
import { createLeases } from '../../src/dispatch/leases.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { seedApp } from '../fixtures/webhooks.ts';

void t.test('it is settled once no lease is being taken or renewed, whatever came of that', async (t) => {
  const { sql } = await testDatabase(t);
  const { endpointId } = await seedApp(sql, 'http://a/');
  // Renewed each time.
  const leases = createLeases(sql, { leaseMs: 60_000, reserveMs: 60_000 });
  await leases.settled();
  const taken = (await leases.hold([endpointId])).get(endpointId)?.claimId;
  t.type(taken, 'string');
  let settled = false;
  let renewing: ReturnType<typeof leases.hold> | undefined;
  let whenSettled: Promise<unknown> | undefined;
  await sql.begin(async (tx) => {
    await tx`select 1 from delivery_leases for share`;
    renewing = leases.hold([endpointId]);
    whenSettled = leases.settled().then(() => (settled = true));
    await tx`select pg_sleep(0.1)`;
    t.equal(settled, false, 'it waits for outcomes that are being written');
  });
  await whenSettled;
  t.equal((await renewing)?.get(endpointId)?.claimId, taken);
  await sql.end();
  await t.rejects(leases.hold([endpointId]));
  await t.resolves(leases.settled());
});

void t.test('a lease that has passed goes on as it was, unless another dispatcher had the endpoint since', async (t) => {
  const { sql } = await testDatabase(t);
  const { endpointId } = await seedApp(sql, 'http://a/');
  // Passed as soon as it is given.
  const [mine, other] = [1, 2].map(() => createLeases(sql, { leaseMs: -1, reserveMs: 0 }));
  const hold = async (leases = mine) => (await leases?.hold([endpointId]))?.get(endpointId);
  const first = await hold();
  t.type(first?.claimId, 'string');
  t.equal(await hold(), first, 'what was sent under it is written when Postgres is back, and not sent again');
  const theirs = await hold(other);
  t.not(theirs?.claimId, first?.claimId);
  const next = await hold();
  t.notMatch([first?.claimId, theirs?.claimId], [next?.claimId]);
  t.equal(first?.sendBefore, 0);
  await mine?.release();
  t.not((await hold())?.claimId, next?.claimId, 'nor after it was given back');
});
