// The promises of docs/contract.md: its list items, and the rows of its tables with a column
// "Promise", cells joined by " | ".
import { readFileSync } from 'node:fs';

const ruler = /^\|[-| ]+\|$/;

function cellsOf(row: string): string[] {
  return row
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim());
}

/** The promises that a page in the form of docs/contract.md makes, in its order. */
function promisesOf(page: string): string[] {
  const found: string[] = [];
  let promises = false;
  // A list item goes on in the indented lines after it.
  const lines = page
    .replaceAll(/\n +(?=[^\s|-])/g, ' ')
    .split('\n')
    .map((line) => line.trim());
  for (const [index, line] of lines.entries()) {
    if (line.startsWith('- ')) found.push(line.slice(2));
    if (!line.startsWith('|') || ruler.test(line)) continue;
    const cells = cellsOf(line);
    if (ruler.test(lines[index + 1] ?? '')) promises = cells.at(-1)?.startsWith('Promise') ?? false;
    else if (promises) found.push(cells.join(' | '));
  }
  return found;
}

export const promises = promisesOf(
  readFileSync(new URL('../../docs/contract.md', import.meta.url), 'utf8'),
);
