// Prints lists and reads them page by page. JSON lines are printed while reading, so that memory
// holds only one page.
import { print, printJson, painter } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { table, type Cell } from '../terminal/table.ts';

const ROWS_AT_ONCE = 1000;

export interface Listing<T> {
  noun: string;
  json: boolean;
  /** Reads up to `limit` rows that follow the row with the id `after`. */
  page: (after: string | null, limit: number) => Promise<readonly T[]>;
  head: readonly string[];
  row: (item: T) => readonly Cell[];
  /** The text printed instead of an empty table. */
  none: string;
}

/** Prints all rows as a table, or each row as one line of JSON. */
export async function printList<T extends { id: string }>({
  noun,
  json,
  page,
  head,
  row,
  none,
}: Listing<T>): Promise<void> {
  const rows: (readonly Cell[])[] = [];
  await withProgress(`reading ${noun}`, async (progress) => {
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
