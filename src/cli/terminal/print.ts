// Output of a command. The result goes to stdout and everything else to stderr, so that the result
// can be piped.
import { styleText } from 'node:util';
import { noColour } from '../../config/terminal.ts';
import { safeJson, safeLines } from './safe-text.ts';

/**
 * Prints the result, which may have colours. Text from merchants or servers must have passed
 * safeText.
 */
export function print(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** Prints the result as one line of JSON. Amounts (bigint) become strings, times ISO 8601. */
export function printJson(value: unknown): void {
  process.stdout.write(
    `${safeJson(JSON.stringify(value, (_key, field: unknown) => (typeof field === 'bigint' ? field.toString() : field)))}\n`,
  );
}

/** Prints a message to stderr. Characters that could control the terminal are escaped. */
export function note(text: string): void {
  process.stderr.write(`${safeLines(text).join('\n')}\n`);
}

/** Returns the text as a link to `url` (OSC 8). A terminal without links shows the text. */
export function hyperlink(text: string, url: string): string {
  return `\u001b]8;;${url}\u0007${text}\u001b]8;;\u0007`;
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Adds a style to a text, if the stream shows colours. */
export type Paint = (style: Style, text: string) => string;

/**
 * Returns the painter of a stream. The painter adds no colour when the stream is not a terminal or
 * NO_COLOR is set.
 */
export function painter(stream: NodeJS.WriteStream): Paint {
  // TypeScript declares hasColors for every stream, but a stream that is not a terminal has no such
  // method.
  if (!stream.isTTY || noColour() || !stream.hasColors()) return plain;
  return (style, text) => styleText(style, text);
}

export const plain: Paint = (_style, text) => text;
