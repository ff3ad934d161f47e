// Makes the partitions of the months ahead and drops those of deliveries and events that are older than is kept. Every dispatcher does it; an advisory
// lock in the schema's functions makes them take turns.
import type { Sql } from '../db/connect.ts';
import { dropMonth, makeMonths, type PartitionedTable } from '../db/partitions.ts';
import { startLoop, type Loop } from '../loop.ts';

export interface RetentionOptions {
  /** Days that rows are kept at least; 0 keeps them for ever. */
  deliveryDays: number;
  eventDays: number;
  /** Called with each month that was dropped, as YYYY_MM. */
  onDropped: (table: PartitionedTable, month: string) => void;
  onError: (error: unknown, failures: number) => void;
}

const hour = 3_600_000;

/** Runs at the start and each hour; one month of one table per turn. A lock that is not to be had within 2 s fails the turn, which is tried again. */
export function startRetention(
  sql: Sql,
  { deliveryDays, eventDays, onDropped, onError }: RetentionOptions,
): Loop {
  // Events last: they go after all deliveries of them.
  const tables = [
    { table: 'deliveries' as const, days: deliveryDays },
    { table: 'events' as const, days: eventDays },
  ].filter(({ days }) => days > 0);

  return startLoop({
    name: 'retention',
    idleMs: hour,
    onError,
    async turn() {
      await makeMonths(sql);
      for (const { table, days } of tables) {
        const month = await dropMonth(sql, table, days);
        if (month === null) continue;
        onDropped(table, month);
        return true;
      }
      return false;
    },
  });
}
