// Output of a command: its answer goes to stdout, everything else to stderr, so that the answer can
// be piped on.
import { safeJson, safeLines } from './safe-text.ts';

/** The answer, which may be coloured: others' text in it must have passed safeText. */
export function answer(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** The answer as one line of JSON: amounts (bigint) as strings, times in ISO 8601. */
export function answerJson(value: unknown): void {
  process.stdout.write(
    `${safeJson(JSON.stringify(value, (_key, held: unknown) => (typeof held === 'bigint' ? held.toString() : held)))}\n`,
  );
}

/** A remark beside the answer. Nothing in it controls the terminal. */
export function note(text: string): void {
  process.stderr.write(`${safeLines(text).join('\n')}\n`);
}
