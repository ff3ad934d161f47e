// Prints lists that are read page by page; JSON lines are printed without keeping the whole list in
// memory.
import { print, printJson, painter } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { table, type Cell } from '../terminal/table.ts';

const ROWS_AT_ONCE = 1000;

export interface Listing<T> {
  what: string;
  json: boolean;
  /** The rows after the one with this id. */
  page: (after: string | null, limit: number) => Promise<readonly T[]>;
  head: readonly string[];
  row: (item: T) => readonly Cell[];
  /** Printed instead of an empty table. */
  none: string;
}

/** Prints every row, as a table or as one line of JSON each. */
export async function printList<T extends { id: string }>({
  what,
  json,
  page,
  head,
  row,
  none,
}: Listing<T>): Promise<void> {
  const rows: (readonly Cell[])[] = [];
  await withProgress(`reading ${what}`, async (progress) => {
    let count = 0;
    for (let after: string | null = null; ;) {
      const found: readonly T[] = await page(after, ROWS_AT_ONCE);
      for (const item of found) {
        if (json) printJson(item);
        else rows.push(row(item));
      }
      after = found.at(-1)?.id ?? null;
      progress.update(`${(count += found.length)} so far`);
      if (found.length < ROWS_AT_ONCE) return;
    }
  });
  if (json) return;
  print(rows.length === 0 ? none : table(head, rows, painter(process.stdout)));
}
