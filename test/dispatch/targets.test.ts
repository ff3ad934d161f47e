import t from 'tap';
import { createTargets } from '../../src/dispatch/targets.ts';
import { secretBox } from '../../src/domain/secrets.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { encryptionKey, seedApp } from '../fixtures/webhooks.ts';

void t.test('none is forgotten that was loaded just now, however many there are', async (t) => {
  const { sql } = await testDatabase(t);
  const secrets = secretBox([encryptionKey]);
  const { endpointId, secret } = await seedApp(sql, 'http://127.0.0.1/hook');
  const rows = await sql<{ id: string }[]>`
    insert into webhook_endpoints (app_id, url, secret, deleted_at)
    select app_id, url, secret, now() from webhook_endpoints, generate_series(1, 10050) where id = ${endpointId} returning id`;
  const ids = rows.map(({ id }) => id);
  const sealed = ids.map((id) => secrets.seal(secret, id).toString('hex'));
  await sql`
    update webhook_endpoints e set secret = decode(s.secret, 'hex')
    from unnest(${ids}::uuid[], ${sealed}::text[]) as s (id, secret) where e.id = s.id`;
  const targets = createTargets(sql, secrets, (id, error) => t.fail(`${id}: ${String(error)}`));
  await targets.load(new Set(ids));
  t.equal(ids.filter((id) => targets.has(id)).length, ids.length);
});
