// The daemons of the release before read and write offers through two views, until they are
// replaced.
import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { applyMigration } from '../../../src/db/postgres/migration-apply.ts';
import { listMigrations } from '../../../src/db/postgres/migration-files.ts';
import { grantRights } from '../../../src/db/postgres/roles.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { makeTestRoles, testDatabase } from '../../fixtures/postgres.ts';

const forbidden = { code: '42501' };
const shared = () => ({
  wallet: randomAddress(),
  blockhash: randomAddress(),
  message: randomBytes(100),
  lastValidBlockHeight: 1,
});
const sponsored = () => ({
  ...shared(),
  purpose: 'revoke',
  sponsor: randomAddress(),
  address: 'address:127.0.0.9',
  blockhashSlot: 1,
  computeUnits: 1,
  unitPrice: 1,
  loadedDataBytes: 1,
});

/** What the daemons of the release before do with offers. */
async function works(t: Test, sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    await tx`set local role postgres_serve`;
    await tx`insert into offered_transactions ${tx({ ...shared(), purpose: 'revoke' })}`;
    await tx`insert into sponsored_offers ${tx(sponsored())}`;
    const { count } = await tx`
      update offered_transactions set signature = 'a', relayed_blockhash = 'b', relayed_at = now()`;
    t.equal(count, (await tx`select id, relayed_at from offered_transactions`).length);
    await tx`delete from offered_transactions where signature is null`;
  });
  await sql.begin(async (tx) => {
    await tx`set local role postgres_keeper`;
    const { count } = await tx`update sponsored_offers set look_at = now()`;
    t.equal(count, (await tx`select id from sponsored_offers`).length);
  });
}

void t.test(
  'offers that stand are kept, and both views work with the rights of before',
  async (t) => {
    const { sql } = await testDatabase(t, { empty: true });
    await makeTestRoles(sql);
    const migrations = (await listMigrations()).filter(({ version }) => version <= 54);
    const own = migrations.pop()!;
    const session = await sql.reserve();
    for (const migration of migrations) await applyMigration(session, migration);
    session.release();
    await sql.unsafe(`
    grant select, insert, delete on offered_transactions, sponsored_offers to postgres_serve;
    grant update (message, registered_at, signature, relayed_blockhash, relayed_at)
      on offered_transactions to postgres_serve;
    grant select on sponsored_offers to postgres_keeper;
    grant update (look_at) on sponsored_offers to postgres_keeper`);
    await sql`insert into offered_transactions ${sql({ ...shared(), purpose: 'revoke' })}`;
    await sql`insert into sponsored_offers ${sql(sponsored())}`;
    await sql.unsafe(own.text);
    t.match(await sql`select purpose, sponsor is null as pays from offers order by 2`, [
      { purpose: 'revoke', pays: false },
      { purpose: 'revoke', pays: true },
    ]);
    await works(t, sql);
    await t.rejects(
      sql.begin(async (tx) => {
        await tx`set local role postgres_keeper`;
        await tx`update sponsored_offers set wallet = 'other'`;
      }),
      forbidden,
    );
    const { sql: whole } = await testDatabase(t);
    await grantRights(whole);
    await works(t, whole);
  },
);
