// Login roles of the daemons: their passwords and settings. Their rights are in roles.ts.
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import type { Sql } from './postgres/connect.ts';
import { isForbidden } from './postgres/outage.ts';
import { type DaemonRole, daemonRoles, quoted, roleNames } from './postgres/roles.ts';

/**
 * Their commits must survive a crash: a signature is committed before it is sent, a cancel before
 * it succeeds.
 */
const durableRoles: readonly DaemonRole[] = ['serve', 'keeper'];

/**
 * Creates or updates the login roles of the daemons with a password here. Returns the names of all
 * roles.
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
 * Makes commits of a role wait for the disk. remote_apply, of the role or else of database or
 * server, waits for longer and is left as it is.
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
 * Lets the owner see the transaction start times of all roles, for oldest_writer() (event-feed.ts),
 * and takes that right from serve, which builds before 0.1.0 gave it to. False when the owner lacks
 * the right and may not grant it.
 */
export async function grantStatistics(sql: Sql): Promise<boolean> {
  const { serve } = await roleNames(sql);
  await unlessForbidden(sql, `revoke pg_read_all_stats from ${quoted(serve)}`);
  const [row] = await sql<{ has: boolean }[]>`
    select pg_has_role('pg_read_all_stats', 'usage') as has`;
  return row?.has === true || unlessForbidden(sql, 'grant pg_read_all_stats to current_user');
}

async function unlessForbidden(sql: Sql, statement: string): Promise<boolean> {
  try {
    await sql.unsafe(statement);
    return true;
  } catch (error) {
    if (isForbidden(error)) return false;
    throw error;
  }
}

/**
 * The SCRAM verifier that Postgres stores for a password (RFC 5803). Sending it keeps the password
 * out of statements and server logs.
 */
export function scramVerifier(password: string, salt = randomBytes(16)): string {
  const rounds = 4096;
  const salted = pbkdf2Sync(password, salt, rounds, 32, 'sha256');
  const key = (name: string) => createHmac('sha256', salted).update(name).digest();
  const stored = createHash('sha256').update(key('Client Key')).digest('base64');
  return `SCRAM-SHA-256$${rounds}:${salt.toString('base64')}$${stored}:${key('Server Key').toString('base64')}`;
}
