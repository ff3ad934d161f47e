// Cuts, fills and breaks lines to a number of terminal columns, counted by string-width as in ink.
// cli-truncate and wrap-ansi are not used: the first returns a column too many when a wide
// character crosses the edge, the second normalizes the text and breaks emoji sequences.
import stringWidth from 'string-width';

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** One line cut to at most `width` columns, with … where something is missing. */
export function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  return width < 1 ? '' : `${headOf(text, width - 1)}…`;
}

/** The longest prefix of at most `width` columns. */
function headOf(text: string, width: number): string {
  let used = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    used += stringWidth(segment);
    if (used > width) return text.slice(0, index);
  }
  return text;
}

/** One line of exactly `width` columns: cut, or filled up with spaces. */
export function fit(text: string, width: number): string {
  const shown = cut(text, width);
  return shown + ' '.repeat(Math.max(0, width - stringWidth(shown)));
}

/**
 * Breaks a line into lines of at most `width` columns, at a space if there is one in the second
 * half of the line. All lines have the indent of the first.
 */
export function wrap(text: string, width: number): string[] {
  if (stringWidth(text) <= width) return [text];
  // Beside the indent there is room for the widest character, of two columns.
  const leading = /^ */.exec(text)?.[0].length ?? 0;
  const indent = Math.max(0, Math.min(leading, Math.floor(width / 2), width - 2));
  const lines: string[] = [];
  let line = '';
  let used = 0;
  // The position of the last space of the line, and the number of columns before it.
  let space = { at: 0, column: 0 };
  const breakLine = (end: number, rest: string) => {
    lines.push(line.slice(0, end));
    line = ' '.repeat(indent) + rest;
    used = stringWidth(line);
    space = { at: 0, column: 0 };
  };
  for (const part of partsOf(text, width - indent)) {
    const columns = stringWidth(part);
    if (used + columns > width && used > 0) {
      if (part === ' ') {
        breakLine(line.length, '');
        continue;
      }
      if (space.column > width / 2) breakLine(space.at, line.slice(space.at + 1));
      else breakLine(line.length, '');
    }
    if (part === ' ') space = { at: line.length, column: used };
    line += part;
    used += columns;
  }
  return [...lines, line];
}

/**
 * The parts of a text that stay together: its graphemes, or the characters of one that is wider
 * than a line. Combining marks that take a column can make a grapheme of any width.
 */
function* partsOf(text: string, width: number): Iterable<string> {
  for (const { segment } of graphemes.segment(text)) {
    if (stringWidth(segment) <= width) yield segment;
    else yield* segment;
  }
}
