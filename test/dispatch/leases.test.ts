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
