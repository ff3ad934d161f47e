import { randomUUID } from 'node:crypto';
import t from 'tap';
import { recordOutcomes, type Outcome } from '../../src/db/deliveries.ts';
import { leaseEndpoints } from '../../src/db/delivery-leases.ts';
import { deleteEndpoint } from '../../src/db/endpoints.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { deliveryState, queueDeliveries, seedApp, until } from '../fixtures/webhooks.ts';

void t.test('an endpoint is deleted beside outcomes that are being written, whatever order each goes in', async (t) => {
  const { sql } = await testDatabase(t);
  const app = await seedApp(sql, 'http://a/');
  const { endpointId } = app;
  const [first = '', middle = '', last = '', unsent = ''] = await queueDeliveries(sql, app, 4);
  const claimId = randomUUID();
  await leaseEndpoints(sql, [{ endpointId }], claimId, 60_000);
  const attempt = { startedAt: Date.now(), durationMs: 1, httpStatus: 200, error: null, response: null, address: '127.0.0.1' };
  const arrived = (id: string): Outcome => ({ id, endpointId, claimId, attempts: 0, status: 'delivered', dueAt: null, attempt });
  const isWaited = async () => (await sql`select 1 from pg_locks where not granted`).length > 0;
  const deleted = await sql.begin(async (tx) => {
    t.equal(await recordOutcomes(tx, [arrived(middle)]), 1);
    const deleting = deleteEndpoint(sql, endpointId);
    await until(isWaited);
    t.equal(await recordOutcomes(tx, [arrived(first), arrived(last)]), 2);
    return { deleting };
  });
  await deleted.deleting;
  for (const id of [first, middle, last]) t.match(await deliveryState(sql, id), { status: 'delivered', attempts: 1 });
  t.match(await deliveryState(sql, unsent), { status: 'cancelled', attempts: 0 });
});
