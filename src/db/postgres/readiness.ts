// Checks of Postgres. At start, the service checks the encoding and the session settings. In
// operation, it checks whether daemons can read and write now.
import { describeDatabase } from '../../config/postgres-url.ts';
import { messageOf, OperatorError } from '../../errors.ts';
import { silenceOf, type Sql } from './connect.ts';
import {
  CHECKED_SETTINGS,
  daemonLimits,
  DIRECT_MARK,
  DIRECT_SETTINGS,
  DURABLE_SETTINGS,
  ENCODING,
  SESSION_SETTINGS,
} from './settings.ts';

/** A statement that exceeds statement_timeout by this time (ms) counts as stuck, not as slow. */
const GRACE_MS = 500;
/** After silent connections were dropped, Postgres counts as unusable for this time (ms). */
const SUSPECT_MS = 5000;

/**
 * Returns the reason why daemons cannot use Postgres; undefined when they can. Never rejects. Runs
 * a query.
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

export interface UsabilityChecks {
  /** Whether to check also that a crash of Postgres loses no committed transaction. */
  durable?: boolean | undefined;
  /**
   * If `url` may lead to a pooler: the settings that a session must have. If undefined, a pooler is
   * an error.
   */
  pooled?: Readonly<Record<string, string>> | undefined;
}

/**
 * Throws an OperatorError with the next step if (1) Postgres does not respond (exit code 1), (2)
 * the encoding or a session setting is not what the service needs (exit code 2), or (3) `url` leads
 * to a pooler and `pooled` is undefined (exit code 2).
 */
export async function assertUsable(
  sql: Sql,
  url: string,
  { durable = false, pooled }: UsabilityChecks = {},
): Promise<void> {
  const { settings, role, database } = await readSettings(sql, url, Object.keys(pooled ?? {}));
  for (const name of ['server_encoding', 'client_encoding'])
    if (settings[name] !== ENCODING)
      throw new OperatorError(
        `Postgres has ${name} = ${settings[name] ?? ''} for the database ${database}; the service needs ${ENCODING}. ` +
          (name === 'server_encoding'
            ? `The encoding of a database cannot be changed: create another one (create database <name> encoding 'UTF8' template template0), restore a dump into it, and change DATABASE_URL.`
            : 'Remove client_encoding from DATABASE_URL, or from the settings of the pooler.'),
        2,
      );
  if (pooled === undefined && settings[DIRECT_MARK] !== DIRECT_SETTINGS[DIRECT_MARK])
    throw poolerFound(url);
  const wrongIn = (wanted: Readonly<Record<string, string>>) =>
    Object.entries(wanted).find(([name, value]) => settings[name] !== value);
  const roleAndDatabase = `${role} in database ${database}`;
  const wrong = wrongIn(pooled ?? SESSION_SETTINGS);
  if (wrong !== undefined) throw wrongSetting(wrong, settings, roleAndDatabase);
  const mismatch = wrongIn(CHECKED_SETTINGS);
  if (mismatch !== undefined)
    throw new OperatorError(
      `Postgres has ${mismatch[0]} = ${settings[mismatch[0]] ?? ''}, and the service needs "${mismatch[1]}". ` +
        `As a superuser: alter role ${roleAndDatabase} set ${mismatch[0]} = '${mismatch[1]}'.`,
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

function wrongSetting(
  [name, value]: [string, string],
  settings: Partial<Record<string, string>>,
  roleAndDatabase: string,
): OperatorError {
  return new OperatorError(
    `Postgres has ${name} = ${settings[name] ?? ''}, and the service needs "${value}": DATABASE_URL sets it, or a pooler drops the settings of connections. ` +
      `Remove it from DATABASE_URL. With a pooler run "billing migrate --roles", or as that role or a superuser: alter role ${roleAndDatabase} set ${name} = '${value}'. ` +
      `Sessions that the pooler already has keep their settings: let it reconnect (PgBouncer: reconnect).`,
    2,
  );
}

function poolerFound(url: string): OperatorError {
  return new OperatorError(
    `There is a pooler at ${describeDatabase(url)}: notifications and the settings of sessions get lost in it. ` +
      `Set DATABASE_DIRECT_URL to the URL of Postgres itself, and run "billing migrate --roles" with both: DATABASE_URL may then lead to a pooler in transaction mode.`,
    2,
  );
}

/**
 * Throws an OperatorError if (1) DATABASE_DIRECT_URL leads to a pooler (exit code 2), or (2)
 * DATABASE_URL and DATABASE_DIRECT_URL lead to different databases (exit code 1, because a failover
 * may be the cause and a restart may then help).
 */
export async function assertDirect(
  pooled: { sql: Sql; url: string },
  direct: { sql: Sql; url: string },
): Promise<void> {
  const read = async ({ sql, url }: { sql: Sql; url: string }) =>
    asking(url, async () => {
      const [row] = await sql<{ identity: string; mark: string | null }[]>`
        select current_database() || ' ' || pg_postmaster_start_time() as identity,
          current_setting(${DIRECT_MARK}, true) as mark`;
      return { identity: row?.identity, mark: row?.mark };
    });
  const [one, other] = [await read(pooled), await read(direct)];
  if (other.mark !== DIRECT_SETTINGS[DIRECT_MARK])
    throw new OperatorError(
      `There is a pooler at ${describeDatabase(direct.url)}, which DATABASE_DIRECT_URL names: set it to the URL of Postgres itself.`,
      2,
    );
  if (one.identity !== other.identity)
    throw new OperatorError(
      `DATABASE_URL and DATABASE_DIRECT_URL lead to different databases (${describeDatabase(pooled.url)} and ${describeDatabase(direct.url)}): notifications would not arrive.`,
      1,
    );
}

const READ_SETTINGS = [
  'server_encoding',
  'client_encoding',
  'synchronous_commit',
  ...Object.keys(SESSION_SETTINGS),
  ...Object.keys(CHECKED_SETTINGS),
];

async function readSettings(
  sql: Sql,
  url: string,
  more: readonly string[],
): Promise<{ settings: Partial<Record<string, string>>; role: string; database: string }> {
  const names = [...new Set([...READ_SETTINGS, ...more])];
  const rows = await asking(
    url,
    () => sql<{ name: string; setting: string; role: string; database: string }[]>`
      select name, setting, quote_ident(current_user) as role,
        quote_ident(current_database()) as database
      from pg_settings where name = any(${names})
      union all
      select ${DIRECT_MARK}::text, coalesce(current_setting(${DIRECT_MARK}, true), ''),
        quote_ident(current_user), quote_ident(current_database())`,
  );
  const settings = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
  return { settings, role: rows[0]?.role ?? '', database: rows[0]?.database ?? '' };
}

/** PgBouncer's error message when it refuses a setting in the first message of a session. */
const UNSUPPORTED = /unsupported startup parameter/;

async function asking<T>(url: string, question: () => PromiseLike<T>): Promise<T> {
  try {
    return await question();
  } catch (error) {
    if (UNSUPPORTED.test(messageOf(error))) throw poolerFound(url);
    throw new OperatorError(
      `Postgres at ${describeDatabase(url)} cannot be used: ${messageOf(error)}. Check that it is running and that DATABASE_URL is right.`,
      1,
      { cause: error },
    );
  }
}
