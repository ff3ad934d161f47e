import { randomUUID } from 'node:crypto';
import t from 'tap';
import { leaseEndpoints, releaseEndpoints } from '../../src/db/delivery-leases.ts';
import { connectQueue } from '../../src/db/queue-connection.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { seedApp, until } from '../fixtures/webhooks.ts';

void t.test('leases are given back in the order in which all lock them, however they are named', async (t) => {
  const { sql } = await testDatabase(t);
  const queue = connectQueue(sql, 1);
  t.teardown(() => queue.end());
  const claimId = randomUUID();
  const claims: { endpointId: string; claimId: string }[] = [];
  for (const url of ['http://a/', 'http://b/', 'http://c/']) claims.push({ endpointId: (await seedApp(sql, url)).endpointId, claimId });
  await leaseEndpoints(sql, claims, claimId, 60_000);
  const released = await sql.begin(async (tx) => {
    const lock = (at: number) => tx`select 1 from delivery_leases where endpoint_id = ${claims[at]?.endpointId ?? ''} for share`;
    await lock(0);
    const releasing = releaseEndpoints(queue, claims.toReversed());
    await until(async () => (await sql`select 1 from pg_locks where not granted`).length > 0);
    await lock(1);
    await lock(2);
    return { releasing };
  });
  await released.releasing;
  t.equal((await sql`select 1 from delivery_leases where lease_until = '-infinity'`).length, 3);
});
