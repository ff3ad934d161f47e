// Login roles of the daemons: passwords and settings. roles.ts defines the rights of these roles.
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';
import type { Sql } from '../postgres/connect.ts';
import { type DaemonRole, daemonRoles } from '../postgres/daemon-roles.ts';
import { quoted, roleNames } from '../postgres/grants.ts';
import { isForbidden } from '../postgres/outage.ts';
import { ROLE_SETTINGS } from '../postgres/settings.ts';

/**
 * Roles whose commits must survive a crash. A keeper commits a signature before the transaction is
 * sent. The API (`serve`) commits a cancellation before it reports success.
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
    if (daemon !== 'reconcile') await setSettings(sql, names[daemon], ROLE_SETTINGS[daemon]);
  }
  return names;
}

/**
 * Makes commits of a role wait for the disk. Keeps remote_apply if the role, the database or the
 * server has this setting, because commits then wait even longer.
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

/** Stores settings for a role. The settings apply to the role's sessions in this database. */
async function setSettings(
  sql: Sql,
  name: string,
  settings: Readonly<Record<string, string>>,
): Promise<void> {
  const [database] = await sql<{ name: string }[]>`
    select quote_ident(current_database()) as name`;
  const prefix = `alter role ${quoted(name)} in database ${database?.name ?? ''}`;
  const statements = Object.entries(settings).map(
    ([setting, value]) => `${prefix} set ${setting} = '${value}'`,
  );
  await sql.unsafe(statements.join(';\n'));
}

/**
 * Which users can see the sessions of other users, including the statements of these sessions
 * (pg_read_all_stats).
 */
export interface StatisticsRights {
  /**
   * The user of DATABASE_URL. This user owns oldest_writer(), which reads all sessions for the API
   * (`serve`).
   */
  owner: string;
  ownerSees: boolean;
  /** The role of `serve`. */
  serve: string;
  serveSees: boolean;
}

/**
 * Grants pg_read_all_stats to the current user, who owns oldest_writer() (event-feed.ts). Revokes
 * the right from the role of `serve`, which had it in earlier builds. Leaves changes that only a
 * superuser may make undone. Returns the resulting rights, or undefined if the role of `serve` does
 * not exist.
 */
export async function moveStatistics(sql: Sql): Promise<StatisticsRights | undefined> {
  const { serve } = await roleNames(sql);
  if ((await sql`select from pg_roles where rolname = ${serve}`).length === 0) return undefined;
  await unlessForbidden(sql, `revoke pg_read_all_stats from ${quoted(serve)}`);
  const before = await statisticsRights(sql, serve);
  if (before.ownerSees) return before;
  const granted = await unlessForbidden(sql, 'grant pg_read_all_stats to current_user');
  return { ...before, ownerSees: granted };
}

async function statisticsRights(sql: Sql, serve: string): Promise<StatisticsRights> {
  const [row] = await sql<StatisticsRights[]>`
    select current_user as owner, pg_has_role('pg_read_all_stats', 'usage') as owner_sees,
      ${serve} as serve, pg_has_role(${serve}, 'pg_read_all_stats', 'usage') as serve_sees`;
  if (row === undefined) throw new Error('the database returned no rights');
  return row;
}

/** Runs a statement. Returns false when the current user has no right to run it. */
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
