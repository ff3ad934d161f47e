// Records in the audit log (admin_actions) what a command changes, with the user of the operating
// system, the host and the reason.
import type { Command } from 'commander';
import { operator } from '../../config/operator.ts';
import { recordAction } from '../../db/operating/admin-actions.ts';
import type { Queryable, Sql, Transaction } from '../../db/postgres/connect.ts';
import { type CommonFlags, parseReason } from '../arguments.ts';

/** The flag of every command that changes something. */
export interface ReasonFlag extends CommonFlags {
  reason?: string;
}

/** Adds --reason to a command that changes something. */
export function withReason(command: Command): Command {
  return command.option('--reason <text>', 'why, for the record (billing actions)', parseReason);
}

/** Records a change in the audit log. `object` describes the changed object. */
export function record(
  sql: Queryable,
  command: string,
  object: string | null,
  { reason = null }: { reason?: string | null },
): Promise<void> {
  return recordAction(sql, operator(), { command, what: object, reason });
}

/**
 * Runs `work` and records the change in the same transaction. `what` describes the change from the
 * result of `work`. If `what` returns undefined, `work` changed nothing and nothing is recorded.
 */
export function recorded<T>(
  sql: Sql,
  command: string,
  flags: ReasonFlag,
  work: (tx: Transaction) => Promise<T>,
  what: (result: T) => string | null | undefined,
): Promise<T> {
  return sql.begin(async (tx) => {
    const result = await work(tx);
    const changed = what(result);
    if (changed !== undefined) await record(tx, command, changed, flags);
    return result;
  }) as Promise<T>;
}
