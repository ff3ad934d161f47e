// For `billing migrate --roles`: creates a Postgres role for each daemon, and for each role a file
// with a database URL that contains the role's password.
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parsePostgresUrl, withUser } from '../config/postgres-url.ts';
import { makeRoles } from '../db/accounts/logins.ts';
import type { Sql } from '../db/postgres/connect.ts';
import { daemonRoles, type DaemonRole } from '../db/postgres/daemon-roles.ts';
import { isForbidden } from '../db/postgres/outage.ts';
import { messageOf, OperatorError } from '../errors.ts';

export interface MadeRoles {
  /** The Postgres role of each daemon. */
  roles: Record<DaemonRole, string>;
  /** Path of the file with each daemon's DATABASE_URL. */
  files: Record<DaemonRole, string>;
  /** Path of the file with each daemon's DATABASE_DIRECT_URL. Undefined without such a URL. */
  directFiles?: Record<DaemonRole, string>;
}

/**
 * Creates a Postgres role for each daemon, and a file in `directory` with the role's database URL,
 * such as `serve_database_url`. With `directUrl`, also creates files such as
 * `serve_database_direct_url`. Only the owner can read the files. If a file exists, its password is
 * kept. Throws an OperatorError when file access fails or the user may not create roles.
 */
export async function makeDatabaseRoles(
  sql: Sql,
  { databaseUrl, directUrl }: { databaseUrl: string; directUrl?: string | undefined },
  directory: string,
): Promise<MadeRoles> {
  const files = byDaemon((daemon) => join(directory, `${daemon}_database_url`));
  const directFiles = byDaemon((daemon) => join(directory, `${daemon}_database_direct_url`));
  const passwords: Partial<Record<DaemonRole, string>> = {};
  const names = await makeRoles(sql, {});
  for (const daemon of daemonRoles) {
    const password = (await passwordIn(files[daemon])) ?? randomBytes(24).toString('hex');
    passwords[daemon] = password;
    await replace(files[daemon], withUser(databaseUrl, names[daemon], password));
    if (directUrl !== undefined)
      await replace(directFiles[daemon], withUser(directUrl, names[daemon], password));
  }
  try {
    await makeRoles(sql, passwords);
    return { roles: names, files, ...(directUrl !== undefined && { directFiles }) };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    throw new OperatorError(
      `The user of DATABASE_URL cannot create roles: ${messageOf(error)}. As a superuser: alter role <user> createrole.`,
      1,
      { cause: error },
    );
  }
}

/**
 * Returns the password in the database URL of a file, or undefined when the file does not exist.
 */
async function passwordIn(path: string): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new OperatorError(`${path} cannot be read: ${messageOf(error)}.`);
  });
  if (text === undefined) return undefined;
  const password = passwordOf(text.trim());
  if (password === undefined)
    throw new OperatorError(`${path} contains no URL with a password: remove it to get a new one.`);
  return password;
}

function passwordOf(url: string): string | undefined {
  try {
    return parsePostgresUrl(url).password;
  } catch {
    return undefined;
  }
}

/** Replaces a file atomically, because a daemon may read the file at the same time. */
async function replace(path: string, text: string): Promise<void> {
  try {
    await writeFile(`${path}.new`, text, { mode: 0o600 });
    await rename(`${path}.new`, path);
  } catch (error) {
    throw new OperatorError(`${path} cannot be written: ${messageOf(error)}.`);
  }
}

function byDaemon<T>(of: (daemon: DaemonRole) => T): Record<DaemonRole, T> {
  return {
    serve: of('serve'),
    keeper: of('keeper'),
    dispatch: of('dispatch'),
    reconcile: of('reconcile'),
  };
}
