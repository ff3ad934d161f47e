// Tables without ruled lines, readable on a terminal. Each row is one line, so grep and awk work.
import Table from 'cli-table3';
import { plain, type Paint } from './print.ts';
import { safeText } from './safe-text.ts';

export type Cell = string | number | bigint | boolean | Date | null;

const sides = ['top', 'bottom', 'left', 'right', 'mid'] as const;
const lines = Object.fromEntries([
  ...sides.flatMap((side) =>
    [side, `${side}-mid`, `${side}-left`, `${side}-right`].map((name) => [name, '']),
  ),
  ['mid-mid', ''],
  ['left-mid', ''],
  ['right-mid', ''],
  ['middle', '  '],
]) as Record<Table.CharName, string>;

/** Returns a table as text that ends with a line break. null is shown as '-'. */
export function table(
  head: readonly string[],
  rows: readonly (readonly Cell[])[],
  paint: Paint = plain,
): string {
  const drawn = new Table({
    chars: lines,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  if (head.length > 0) drawn.push(head.map((name) => paint('bold', name)));
  drawn.push(...rows.map((row) => row.map(cellText)));
  return `${drawn
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n')}\n`;
}

/**
 * Returns the text of a cell. Merchants choose names and URLs, so safeText escapes characters that
 * could control the terminal.
 */
function cellText(cell: Cell): string {
  if (cell === null) return '-';
  if (cell instanceof Date) return cell.toISOString();
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no';
  return safeText(String(cell));
}
