// Checks of Postgres: whether daemons can use it now, and at start whether encoding, settings and
// commits are as the service needs them.
import { describeDatabase } from '../../config/postgres-url.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { daemonLimits, silenceOf, type Sql } from './connect.ts';
import { DURABLE_SETTINGS, ENCODING, SESSION_SETTINGS } from './settings.ts';

/** A statement that exceeds statement_timeout by this time (ms) counts as stuck, not as slow. */
const GRACE_MS = 500;
/** After silent connections were dropped, Postgres counts as unusable for this time (ms). */
const SUSPECT_MS = 5000;

/**
 * Returns the reason why daemons cannot use Postgres; undefined when they can. Never rejects, but
 * may wait until its own query ends.
 */
export async function databaseTrouble(sql: Sql): Promise<string | undefined> {
  const silence = silenceOf(sql);
  const waitingMs = silence?.waitingMs() ?? 0;
  if (waitingMs > daemonLimits.statementMs + GRACE_MS)
    return `a statement has waited ${Math.round(waitingMs / 1000)} s for Postgres`;
  if (silence !== undefined && silence.droppedAgoMs() < SUSPECT_MS)
    return 'connections to Postgres went silent and were dropped';
  try {
    const [found] = await sql<{ readOnly: boolean; recovering: boolean }[]>`
      select current_setting('transaction_read_only') = 'on' as read_only,
        pg_is_in_recovery() as recovering`;
    if (found?.recovering === true) return 'Postgres is a standby and cannot be written to';
    return found?.readOnly === true ? 'Postgres is read-only' : undefined;
  } catch (error) {
    return `Postgres does not answer: ${messageOf(error)}`;
  }
}

/**
 * Checks in one query that Postgres responds and that encoding and session settings are as the
 * service needs them. With `durable`, also checks that a Postgres crash cannot lose a commit.
 * Otherwise throws an OperatorError with the next step (exit code 1 for no response, else 2).
 */
export async function assertUsable(
  sql: Sql,
  url: string,
  { durable = false }: { durable?: boolean } = {},
): Promise<void> {
  const { settings, role, database } = await readSettings(sql, url);
  for (const name of ['server_encoding', 'client_encoding'])
    if (settings[name] !== ENCODING)
      throw new OperatorError(
        `Postgres has ${name} = ${settings[name] ?? ''} for the database ${database}; the service needs ${ENCODING}. ` +
          (name === 'server_encoding'
            ? `The encoding of a database cannot be changed: create another one (create database <name> encoding 'UTF8' template template0), restore a dump into it, and change DATABASE_URL.`
            : 'Remove client_encoding from DATABASE_URL, or from the settings of the pooler.'),
        2,
      );
  const wrong = Object.entries(SESSION_SETTINGS).find(([name, value]) => settings[name] !== value);
  if (wrong !== undefined)
    throw new OperatorError(
      `Postgres has ${wrong[0]} = ${settings[wrong[0]] ?? ''} although the service asks for "${wrong[1]}": DATABASE_URL sets it, or a pooler drops the settings of connections. ` +
        `Remove it from DATABASE_URL and connect without the pooler, or as that role or a superuser: alter role ${role} set ${wrong[0]} = '${wrong[1]}'.`,
      2,
    );
  const commit = settings.synchronous_commit ?? '';
  if (durable && !DURABLE_SETTINGS.includes(commit))
    throw new OperatorError(
      `Postgres has synchronous_commit = ${commit} for the role ${role}: a commit could be lost after the service has acted on it. ` +
        `Run "billing migrate --roles", or as that role or a superuser: alter role ${role} set synchronous_commit = 'on'.`,
      2,
    );
}

const CHECKED_SETTINGS = [
  'server_encoding',
  'client_encoding',
  'synchronous_commit',
  ...Object.keys(SESSION_SETTINGS),
];

async function readSettings(
  sql: Sql,
  url: string,
): Promise<{ settings: Partial<Record<string, string>>; role: string; database: string }> {
  try {
    const rows = await sql<{ name: string; setting: string; role: string; database: string }[]>`
      select name, current_setting(name) as setting, quote_ident(current_user) as role,
        quote_ident(current_database()) as database
      from unnest(${CHECKED_SETTINGS}::text[]) as name`;
    const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
    return { settings, role: rows[0]?.role ?? '', database: rows[0]?.database ?? '' };
  } catch (error) {
    throw new OperatorError(
      `Postgres at ${describeDatabase(url)} cannot be used: ${messageOf(error)}. Check that it is running and that DATABASE_URL is right.`,
      1,
      { cause: error },
    );
  }
}
