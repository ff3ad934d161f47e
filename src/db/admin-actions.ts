// The record of what operators changed.
import type { Queryable } from './postgres/connect.ts';

/** Who changes something: a user of the operating system, or a daemon. */
export interface Actor {
  who: string;
  host: string;
}

export interface AdminAction {
  /** Without its arguments, such as "collection hold". */
  command: string;
  /** What it changed, such as "merchant <wallet>"; null: the whole installation. */
  what: string | null;
  reason: string | null;
}

/** Records an action in the transaction that makes the change. */
export async function recordAction(
  sql: Queryable,
  { who, host }: Actor,
  { command, what, reason }: AdminAction,
): Promise<void> {
  await sql`
    insert into admin_actions (who, host, command, what, reason)
      values (${who}, ${host}, ${command}, ${what}, ${reason})`;
}
