const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** JSON text set out over lines, each token as it was written: no number is rounded, no name dropped. undefined when it is no JSON object or array. */
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
    }
  }
  return pretty;
}
