// The width of text in terminal columns. An approximation (wide East Asian characters and emoji are
// two columns), because ink also cuts the output to its place.
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
const plain = /^[\x20-\x7e]*$/;
const wide =
  /\p{Emoji_Presentation}|\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u;
const widthless = /^\p{M}+$/u;

function widthOfGrapheme(grapheme: string): number {
  if (widthless.test(grapheme)) return 0;
  return wide.test(grapheme) ? 2 : 1;
}

/** Columns of one line of safe text. */
export function widthOf(text: string): number {
  if (plain.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += widthOfGrapheme(segment);
  return width;
}

/** One line cut to at most `width` columns, with … where something is missing. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  if (width < 1) return '';
  const [head] = split(text, width - 1);
  return widthOf(head) < width ? `${head}…` : '…';
}

/** One line of exactly `width` columns: cut, or filled up with spaces. */
export function fit(text: string, width: number): string {
  const shown = cut(text, width);
  return shown + ' '.repeat(Math.max(0, width - widthOf(shown)));
}

/**
 * Breaks a line into lines of at most `width` columns, preferably at spaces; all lines have the
 * indent of the first.
 */
export function wrap(text: string, width: number): string[] {
  // Beside the indent the widest character, of two columns, must have its place.
  const indent = Math.max(
    0,
    Math.min(/^ */.exec(text)?.[0].length ?? 0, Math.floor(width / 2), width - 2),
  );
  const lines: string[] = [];
  let line = '';
  let used = 0;
  // The position of the last space of the line, and the number of columns before it.
  let space = { at: 0, column: 0 };
  const breakLine = (end: number, rest: string) => {
    lines.push(line.slice(0, end));
    line = ' '.repeat(indent) + rest;
    used = widthOf(line);
    space = { at: 0, column: 0 };
  };
  for (const grapheme of plain.test(text) ? text : segmentsOf(text)) {
    const columns = widthOfGrapheme(grapheme);
    if (used + columns > width && used > 0) {
      if (grapheme === ' ') {
        breakLine(line.length, '');
        continue;
      }
      if (space.column > width / 2) breakLine(space.at, line.slice(space.at + 1));
      else breakLine(line.length, '');
    }
    if (grapheme === ' ') space = { at: line.length, column: used };
    line += grapheme;
    used += columns;
  }
  return [...lines, line];
}

function* segmentsOf(text: string): Iterable<string> {
  for (const { segment } of graphemes.segment(text)) yield segment;
}

/** The longest prefix of at most `width` columns (at least one grapheme), and the rest. */
function split(text: string, width: number): [string, string] {
  if (plain.test(text)) return [text.slice(0, Math.max(1, width)), text.slice(Math.max(1, width))];
  let used = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    used += widthOfGrapheme(segment);
    if (used > width && index > 0) return [text.slice(0, index), text.slice(index)];
  }
  return [text, ''];
}
