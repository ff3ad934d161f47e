const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/**
 * JSON with more nested levels than this is not indented, because the indentation would be far
 * longer than the text.
 */
const MAX_DEPTH = 64;

/**
 * Indents JSON text over several lines and keeps each token as written. Returns undefined unless
 * the text is a JSON object or array of at most 64 levels.
 */
export function prettyJson(text: string): string | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return undefined;
  } catch {
    return undefined;
  }
  let depth = 0;
  let pretty = '';
  const tokens = text.match(token) ?? [];
  const newline = () => `\n${'  '.repeat(depth)}`;
  for (const [index, each] of tokens.entries()) {
    const before = tokens[index - 1];
    const opened = before === '{' || before === '[';
    if (each === '}' || each === ']') {
      depth -= 1;
      pretty += opened ? each : newline() + each;
    } else {
      if (opened || before === ',') pretty += newline();
      pretty += each === ':' ? ': ' : each;
      if (each === '{' || each === '[') depth += 1;
      if (depth > MAX_DEPTH) return undefined;
    }
  }
  return pretty;
}
