/**
 * Replaces each `{name}` in a text with the value of that name. A value stays as it is, even where
 * it has braces, and is not escaped.
 */
export function fill(text: string, values: Readonly<Record<string, string | number>>): string {
  return text.replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''));
}
