// Audit log of changes made by operators.
import type { Queryable } from '../postgres/connect.ts';
import { LAST_ID } from '../postgres/ids.ts';
import type { Page } from '../postgres/lists.ts';

/** The operating-system user or the daemon that makes a change. */
export interface Actor {
  who: string;
  host: string;
}

export interface AdminAction {
  /** The command without its arguments, such as "collection hold". */
  command: string;
  /** The object of the change, such as "merchant <wallet>"; null means the whole installation. */
  what: string | null;
  reason: string | null;
}

export interface RecordedAction extends Actor, AdminAction {
  id: string;
  at: Date;
}

/** Inserts an audit row. Call it in the transaction that makes the change. */
export async function recordAction(
  sql: Queryable,
  { who, host }: Actor,
  { command, what, reason }: AdminAction,
): Promise<void> {
  await sql`
    insert into admin_actions (who, host, command, what, reason)
      values (${who}, ${host}, ${command}, ${what}, ${reason})`;
}

/** Lists actions, newest first. Filters `command` by prefix and `what` by substring. */
export function listActions(
  sql: Queryable,
  {
    who,
    command,
    what,
    since,
    after,
    limit,
  }: Page & { who: string | null; command: string | null; what: string | null; since: Date | null },
): Promise<RecordedAction[]> {
  return sql<RecordedAction[]>`
    select id, at, who, host, command, what, reason from admin_actions
    where id < ${after ?? LAST_ID} and (${who}::text is null or who = ${who})
      and (${command}::text is null or starts_with(command, ${command}))
      and (${what}::text is null or strpos(what, ${what}) > 0)
      and (${since}::timestamptz is null or at >= ${since})
    order by id desc limit ${limit}`;
}
