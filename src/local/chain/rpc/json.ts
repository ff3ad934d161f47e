/** JSON text, which toJson() copies unchanged into its output. */
export class Json {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Encodes a value as JSON like JSON.stringify, except for two types. A bigint becomes a number with
 * all its digits (rentEpoch is 2^64 - 1). A Json value is copied unchanged.
 */
export function toJson(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value);
  if (typeof value === 'bigint' || typeof value === 'number' || typeof value === 'boolean')
    return String(value);
  if (Array.isArray(value)) return listOf(value);
  if (value instanceof Json) return value.text;
  if (typeof value === 'object' && value !== null) {
    const members: string[] = [];
    for (const [name, member] of Object.entries(value)) {
      if (member !== undefined) members.push(`${JSON.stringify(name)}:${toJson(member)}`);
    }
    return `{${members.join(',')}}`;
  }
  return 'null';
}

/**
 * Encodes an array. An array of strings takes a faster path, because most of the output is logs,
 * which are arrays of strings.
 */
function listOf(values: readonly unknown[]): string {
  return values.every((one) => typeof one === 'string')
    ? JSON.stringify(values)
    : `[${values.map(toJson).join(',')}]`;
}
