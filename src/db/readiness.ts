// Whether a daemon can use Postgres right now.
import { messageOf } from '../errors.ts';
import { daemonLimits, silenceOf, type Sql } from './connect.ts';

/** Milliseconds after the server's own limit from which a statement counts as stuck rather than slow. */
const graceMs = 500;
/** Milliseconds after silent connections were dropped in which others are suspected as well. */
const suspectMs = 5000;

/** Why Postgres cannot be used as the daemons need it, in words; undefined when it can. Never rejects; it may wait as long as Postgres lets it. */
export async function databaseTrouble(sql: Sql): Promise<string | undefined> {
  const silence = silenceOf(sql);
  const waitingMs = silence?.waitingMs() ?? 0;
  if (waitingMs > daemonLimits.statementMs + graceMs)
    return `a statement has waited ${Math.round(waitingMs / 1000)} s for Postgres`;
  if (silence !== undefined && silence.droppedAgoMs() < suspectMs)
    return 'connections to Postgres went silent and were dropped';
  try {
    const [found] = await sql<{ readOnly: boolean; recovering: boolean }[]>`
      select current_setting('transaction_read_only') = 'on' as read_only, pg_is_in_recovery() as recovering`;
    if (found?.recovering === true) return 'Postgres is a standby and cannot be written to';
    return found?.readOnly === true ? 'Postgres is read-only' : undefined;
  } catch (error) {
    return `Postgres does not answer: ${messageOf(error)}`;
  }
}
