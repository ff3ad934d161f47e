// The contract of the API once more, with serve's statements through PgBouncer in transaction mode
// (test/fixtures/http.ts).
import t from 'tap';
import { startPgBouncer } from '../fixtures/pgbouncer.ts';
import { testDatabase } from '../fixtures/postgres.ts';

const { url } = await testDatabase(t, { empty: true });
const pooler = await startPgBouncer(t, url);
process.env.BILLING_TEST_POOLER = new URL(pooler.url).host;
t.teardown(() => {
  delete process.env.BILLING_TEST_POOLER;
});
await import('./api.test.ts');
await import('./auth.test.ts');
await import('./limits.test.ts');
await import('./webhooks.test.ts');
