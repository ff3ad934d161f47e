// Where a command's words go: its answer to stdout, all else to stderr, so that the answer can be piped on.

/** The answer. */
export function answer(text: string): void {
  process.stdout.write(text.endsWith('\n') ? text : `${text}\n`);
}

/** The answer as one line of JSON: amounts (bigint) as strings, times in ISO 8601. */
export function answerJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value, (_key, held: unknown) => (typeof held === 'bigint' ? held.toString() : held))}\n`);
}

/** What is worth knowing beside the answer. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}
