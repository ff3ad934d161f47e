import t from 'tap';
import { insertReplay } from '../../src/db/replays.ts';
import { deleteOldDeliveries } from '../../src/db/retention.ts';
import { firstId } from '../../src/db/ids.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { queueDeliveries, queuedAt, seedApp } from '../fixtures/webhooks.ts';

void t.test('an old delivery stays for as long as its replay is still to be sent', async (t) => {
  const { sql } = await testDatabase(t);
  const [queued = ''] = await queueDeliveries(sql, await seedApp(sql, 'http://a/'), 1);
  await sql`update deliveries set status = 'failed', attempts = 6, finished_at = now()`;
  const old = await queuedAt(sql, queued, new Date('2026-01-01'));
  const replay = (await insertReplay(sql, old)) ?? '';
  const remove = () => deleteOldDeliveries(sql, { days: 1, after: firstId, limit: 10 });
  t.same(await remove(), []);
  await sql`update deliveries set status = 'delivered', finished_at = now() where id = ${replay}`;
  t.same(await remove(), [old]);
  t.same([...(await sql`select id, replay_of from deliveries`)], [{ id: replay, replayOf: null }]);
});
