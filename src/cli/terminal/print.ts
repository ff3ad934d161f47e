// Output of a command: its result goes to stdout and everything else to stderr, so that the result
// can be piped on.
import { styleText } from 'node:util';
import { noColour } from '../../config/terminal.ts';
import { safeJson, safeLines } from './safe-text.ts';

/** Prints the result. It may be coloured: foreign text in it must have passed safeText. */
export function print(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** Prints the result as one line of JSON: amounts (bigint) as strings, times in ISO 8601. */
export function printJson(value: unknown): void {
  process.stdout.write(
    `${safeJson(JSON.stringify(value, (_key, field: unknown) => (typeof field === 'bigint' ? field.toString() : field)))}\n`,
  );
}

/** Prints a remark beside the result. Characters that could control the terminal are escaped. */
export function note(text: string): void {
  process.stderr.write(`${safeLines(text).join('\n')}\n`);
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Adds a style to a text if the stream shows colours. */
export type Paint = (style: Style, text: string) => string;

/** The painter for a stream: no colour when it is not a terminal, or with NO_COLOR. */
export function painter(stream: NodeJS.WriteStream): Paint {
  // A stream that is not a terminal lacks hasColors, though its type has it.
  if (!stream.isTTY || noColour() || !stream.hasColors()) return plain;
  return (style, text) => styleText(style, text);
}

export const plain: Paint = (_style, text) => text;
