// `billing migrate --roles`: a Postgres role for each daemon, and the files with the URLs by which the daemons use them.
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Sql } from './db/connect.ts';
import { isForbidden } from './db/outage.ts';
import { daemonRoles, grantStatistics, makeRoles, type DaemonRole } from './db/roles.ts';
import { messageOf, OperatorError } from './errors.ts';

export interface MadeRoles {
  /** The names of the roles, and the files with their URLs. */
  roles: Record<DaemonRole, string>;
  files: Record<DaemonRole, string>;
  /** Whether serve may see when transactions of other roles began. */
  seesStatistics: boolean;
}

/**
 * Makes the roles and, in `directory`, `serve_database_url` and its like, readable by their owner alone. A file that is there keeps its password and
 * gets the place of `databaseUrl`. Throws an OperatorError where a file cannot be written or read, or the user of `databaseUrl` may not make roles.
 */
export async function makeDatabaseRoles(
  sql: Sql,
  databaseUrl: string,
  directory: string,
): Promise<MadeRoles> {
  const files = byDaemon((daemon) => join(directory, `${daemon}_database_url`));
  const passwords: Partial<Record<DaemonRole, string>> = {};
  const names = await makeRoles(sql, {});
  for (const daemon of daemonRoles) {
    const password = (await passwordIn(files[daemon])) ?? randomBytes(24).toString('hex');
    const url = new URL(databaseUrl);
    url.username = names[daemon];
    url.password = password;
    passwords[daemon] = password;
    await replace(files[daemon], url.href);
  }
  try {
    await makeRoles(sql, passwords);
    return { roles: names, files, seesStatistics: await grantStatistics(sql) };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    throw new OperatorError(
      `The user of DATABASE_URL may not make roles: ${messageOf(error)}. As a superuser: alter role <user> createrole.`,
      1,
      { cause: error },
    );
  }
}

/** The password of the URL in this file; undefined where there is no file. */
async function passwordIn(path: string): Promise<string | undefined> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw new OperatorError(`${path} cannot be read: ${messageOf(error)}.`);
  });
  if (text === undefined) return undefined;
  const password = URL.canParse(text.trim()) ? new URL(text.trim()).password : '';
  if (password === '')
    throw new OperatorError(`${path} holds no URL with a password: remove it to have a new one.`);
  return decodeURIComponent(password);
}

/** The file is never half written: a daemon may start meanwhile. */
async function replace(path: string, text: string): Promise<void> {
  try {
    await writeFile(`${path}.new`, text, { mode: 0o600 });
    await rename(`${path}.new`, path);
  } catch (error) {
    throw new OperatorError(`${path} cannot be written: ${messageOf(error)}.`);
  }
}

function byDaemon<T>(of: (daemon: DaemonRole) => T): Record<DaemonRole, T> {
  return { serve: of('serve'), keeper: of('keeper'), dispatch: of('dispatch') };
}
