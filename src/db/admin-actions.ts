// Audit log of changes made by operators.
import type { Queryable } from './postgres/connect.ts';

/** The user of the operating system, or the daemon, that makes a change. */
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
