// The login roles of the daemons. `billing migrate --roles` as a whole is in roles.test.ts.
import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { makeRoles, scramVerifier } from '../../../src/db/accounts/logins.ts';
import { connect } from '../../../src/db/postgres/connect.ts';
import { assertUsable } from '../../../src/db/postgres/readiness.ts';
import { testDatabase } from '../../fixtures/postgres.ts';

void t.test(
  'a role’s password is stored as the SCRAM verifier that Postgres would compute',
  async (t) => {
    const { sql } = await testDatabase(t);
    const role = `billing_scram_${randomBytes(4).toString('hex')}`;
    await sql.unsafe(
      `set password_encryption = 'scram-sha-256'; create role ${role} password 'a secret'`,
    );
    t.teardown(() => sql.unsafe(`drop role ${role}`));
    const [row] = await sql<{ stored: string }[]>`
    select rolpassword as stored from pg_authid where rolname = ${role}`;
    const salt = /^SCRAM-SHA-256\$4096:([^$]+)\$/.exec(row?.stored ?? '')?.[1] ?? '';
    t.equal(scramVerifier('a secret', Buffer.from(salt, 'base64')), row?.stored);
  },
);

/** An owner with roles of its own for the daemons, dropped when the test ends. */
async function owner(t: Test) {
  const { sql, url } = await testDatabase(t, { empty: true });
  const name = `billing_${randomBytes(4).toString('hex')}`;
  await sql.unsafe(`create role ${name}_owner login createrole password 'its own'`);
  const owned = new URL(url);
  owned.username = `${name}_owner`;
  owned.password = 'its own';
  const own = connect(owned.href, { max: 1, name: 'billing test' });
  t.teardown(async () => {
    await own.end();
    for (const role of ['serve', 'keeper', 'dispatch', 'owner'])
      await sql.unsafe(`drop role if exists ${name}_${role}`);
  });
  const passwords = { serve: 'of a test', keeper: 'of a test', dispatch: 'of a test' };
  const settings = async () => {
    const rows = await sql<{ role: string; setting: string }[]>`
      select rolname as role, setting from pg_roles cross join unnest(rolconfig) as setting
      where rolname like ${`${name}\\_%`} order by 1`;
    return rows.map(({ role, setting }) => [role.slice(name.length + 1), setting]);
  };
  const as = (daemon: string) => {
    const its = new URL(url);
    its.username = `${name}_${daemon}`;
    its.password = 'of a test';
    const connection = connect(its.href, { max: 1, name: 'billing test' });
    t.teardown(() => connection.end());
    return connection;
  };
  return { sql, url, name, own, passwords, settings, as };
}

void t.test('the roles of serve and keeper commit with synchronous_commit on', async (t) => {
  const { sql, url, name, own, passwords, settings, as } = await owner(t);
  await makeRoles(own, passwords);
  t.same(await settings(), [
    ['keeper', 'synchronous_commit=on'],
    ['serve', 'synchronous_commit=on'],
  ]);
  await assertUsable(as('keeper'), url, { durable: true });
  await sql.unsafe(`alter role ${name}_keeper set synchronous_commit = remote_apply`);
  await makeRoles(own, passwords);
  t.same(
    await settings(),
    [
      ['keeper', 'synchronous_commit=remote_apply'],
      ['serve', 'synchronous_commit=on'],
    ],
    'remote_apply waits for longer and stays',
  );
  await assertUsable(as('keeper'), url, { durable: true });
  for (const weak of ['off', 'local', 'remote_write']) {
    await sql.unsafe(`alter role ${name}_serve set synchronous_commit = '${weak}'`);
    await t.rejects(assertUsable(as('serve'), url, { durable: true }), {
      exitCode: 2,
      message: new RegExp(
        `synchronous_commit = ${weak} .*billing migrate --roles.*alter role ${name}_serve set`,
      ),
    });
    await makeRoles(own, passwords);
    await assertUsable(as('serve'), url, { durable: true });
  }
});

void t.test(
  'a synchronous_commit of remote_apply in the database or the server is kept for the roles',
  async (t) => {
    const { sql, own, passwords, settings } = await owner(t);
    const [database] = await sql<
      { name: string }[]
    >`select quote_ident(current_database()) as name`;
    await sql.unsafe(
      `alter database ${database?.name ?? ''} set synchronous_commit = remote_apply`,
    );
    await makeRoles(own, passwords);
    t.same(await settings(), []);
  },
);
