// Cuts, pads and wraps lines to a number of terminal columns. string-width counts the columns, as
// in ink. cli-truncate is not used because it cuts some texts one column too wide. wrap-ansi is not
// used because it normalizes text and breaks emoji sequences.
import stringWidth from 'string-width';

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Cuts one line to at most `width` columns. A cut line ends with "…". */
export function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  return width < 1 ? '' : `${headOf(text, width - 1)}…`;
}

/** Returns the longest prefix of `text` that takes at most `width` columns. */
function headOf(text: string, width: number): string {
  let used = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    used += stringWidth(segment);
    if (used > width) return text.slice(0, index);
  }
  return text;
}

/** Returns one line of exactly `width` columns, cut or padded with spaces. */
export function fit(text: string, width: number): string {
  const shown = cut(text, width);
  return shown + ' '.repeat(Math.max(0, width - stringWidth(shown)));
}

/**
 * Wraps a line into lines of at most `width` columns, each with the indent of the first line. A
 * full line is broken at its last space if that space is in the second half of the line. Otherwise
 * the line is broken at its end.
 */
export function wrap(text: string, width: number): string[] {
  if (stringWidth(text) <= width) return [text];
  // The indent is limited, so that at least two columns remain. The widest character takes two
  // columns.
  const leading = /^ */.exec(text)?.[0].length ?? 0;
  const indent = Math.max(0, Math.min(leading, Math.floor(width / 2), width - 2));
  const lines: string[] = [];
  let line = '';
  let used = 0;
  // Position of the last space of the line, and the number of columns before that space.
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
 * Splits text into graphemes, so that no line break separates the parts of a grapheme. If a
 * grapheme is wider than a line, because it has many combining marks, splits it into characters.
 */
function* partsOf(text: string, width: number): Iterable<string> {
  for (const { segment } of graphemes.segment(text)) {
    if (stringWidth(segment) <= width) yield segment;
    else yield* segment;
  }
}
