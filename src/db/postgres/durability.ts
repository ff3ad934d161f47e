// Checks at the start of serve and keeper that their commits survive a crash of Postgres.
import { OperatorError } from '../../errors.ts';
import type { Sql } from './connect.ts';

/**
 * Settings of synchronous_commit under which a commit waits for the disk, and for that of each
 * synchronous standby.
 */
const durable = ['on', 'remote_apply'];

/**
 * Throws an OperatorError (exit code 2) with the next step when commits of this connection are
 * weaker.
 */
export async function assertDurableCommits(sql: Sql): Promise<void> {
  const [found] = await sql<{ setting: string; name: string }[]>`
    select current_setting('synchronous_commit') as setting, quote_ident(current_user) as name`;
  if (found === undefined || durable.includes(found.setting)) return;
  throw new OperatorError(
    `Postgres has synchronous_commit = ${found.setting} for the role ${found.name}: a commit could be lost after the service has acted on it. ` +
      `Run "billing migrate --roles", or as that role or a superuser: alter role ${found.name} set synchronous_commit = 'on'.`,
    2,
  );
}
