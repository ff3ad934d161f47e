// Checks of Postgres for the daemons: whether Postgres is usable now, and whether its commits are
// durable.
import { messageOf, OperatorError } from '../../errors.ts';
import { daemonLimits, silenceOf, type Sql } from './connect.ts';

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
 * Values of synchronous_commit with which a commit waits for its own disk and for the disks of all
 * synchronous standbys.
 */
const DURABLE_SETTINGS = ['on', 'remote_apply'];

/**
 * Checks that a Postgres crash cannot lose a commit of this connection. Otherwise throws an
 * OperatorError (exit code 2) with the next step.
 */
export async function assertDurableCommits(sql: Sql): Promise<void> {
  const [found] = await sql<{ setting: string; name: string }[]>`
    select current_setting('synchronous_commit') as setting, quote_ident(current_user) as name`;
  if (found === undefined || DURABLE_SETTINGS.includes(found.setting)) return;
  throw new OperatorError(
    `Postgres has synchronous_commit = ${found.setting} for the role ${found.name}: a commit could be lost after the service has acted on it. ` +
      `Run "billing migrate --roles", or as that role or a superuser: alter role ${found.name} set synchronous_commit = 'on'.`,
    2,
  );
}
