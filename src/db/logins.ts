// Login roles of the daemons: passwords and settings. roles.ts has their rights.
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import type { Sql } from './postgres/connect.ts';
import { isForbidden } from './postgres/outage.ts';
import { type DaemonRole, daemonRoles, quoted, roleNames } from './postgres/roles.ts';

/**
 * Roles whose commits must survive a crash. A keeper commits a signature before sending it; serve
 * commits a cancel before it reports success.
 */
const durableRoles: readonly DaemonRole[] = ['serve', 'keeper'];

/**
 * Creates or updates the login role of each daemon that has a password in `passwords`. Returns the
 * role names of all daemons.
 */
export async function makeRoles(
  sql: Sql,
  passwords: Readonly<Partial<Record<DaemonRole, string>>>,
): Promise<Record<DaemonRole, string>> {
  const names = await roleNames(sql);
  for (const daemon of daemonRoles) {
    const password = passwords[daemon];
    if (password === undefined) continue;
    const role = quoted(names[daemon]);
    const [found] = await sql`select from pg_roles where rolname = ${names[daemon]}`;
    const verb = found === undefined ? 'create' : 'alter';
    await sql.unsafe(`${verb} role ${role} login password '${scramVerifier(password)}'`);
    if (durableRoles.includes(daemon)) await makeDurable(sql, names[daemon]);
  }
  return names;
}

/**
 * Makes commits of a role wait for the disk. A setting of remote_apply waits even longer and is
 * kept, whether it is set on the role, the database or the server.
 */
async function makeDurable(sql: Sql, name: string): Promise<void> {
  const [found] = await sql<{ setting: string | null }[]>`
    select coalesce(
      (select split_part(setting, '=', 2) from pg_roles cross join unnest(rolconfig) as setting
        where rolname = ${name} and starts_with(setting, 'synchronous_commit=')),
      (select setting from pg_settings where name = 'synchronous_commit'
        and source not in ('user', 'database user', 'client', 'session'))
    ) as setting`;
  if (found?.setting !== 'remote_apply')
    await sql.unsafe(`alter role ${quoted(name)} set synchronous_commit = 'on'`);
}

/**
 * Lets serve see the transaction start times of other roles (event-feed.ts). Returns false when the
 * caller has no right to grant this.
 */
export async function grantStatistics(sql: Sql): Promise<boolean> {
  const { serve } = await roleNames(sql);
  const [row] = await sql<{ has: boolean }[]>`
    select pg_has_role(${serve}, 'pg_read_all_stats', 'usage') as has`;
  if (row?.has === true) return true;
  try {
    await sql.unsafe(`grant pg_read_all_stats to ${quoted(serve)}`);
    return true;
  } catch (error) {
    if (isForbidden(error)) return false;
    throw error;
  }
}

/**
 * Computes the SCRAM verifier that Postgres stores for a password (RFC 5803). Sending the verifier
 * keeps the password out of statements and server logs.
 */
export function scramVerifier(password: string, salt = randomBytes(16)): string {
  const rounds = 4096;
  const salted = pbkdf2Sync(password, salt, rounds, 32, 'sha256');
  const key = (name: string) => createHmac('sha256', salted).update(name).digest();
  const stored = createHash('sha256').update(key('Client Key')).digest('base64');
  return `SCRAM-SHA-256$${rounds}:${salt.toString('base64')}$${stored}:${key('Server Key').toString('base64')}`;
}
