// Prompts on a terminal. Prompts are written to stderr, so that stdout has only the result of the
// command.
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { Interrupted } from '../../errors.ts';

/** Returns whether a command can ask the user: stdin and stderr must be terminals. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/**
 * Asks a yes-or-no question. The answers y and yes return true. Any other line and ctrl-D return
 * false. Throws Interrupted for ctrl-C and when `signal` aborts.
 */
export async function confirm(question: string, signal: AbortSignal): Promise<boolean> {
  return /^y(es)?$/i.test(
    (await read(`${question} [y/N] `, { hidden: false, signal }))?.trim() ?? '',
  );
}

/**
 * Asks for a secret and does not show the typed text. Returns an empty string for ctrl-D. Throws
 * Interrupted for ctrl-C and when `signal` aborts.
 */
export async function askSecret(question: string, signal: AbortSignal): Promise<string> {
  return (await read(`${question}: `, { hidden: true, signal }))?.trim() ?? '';
}

/**
 * Waits for Enter. Returns true for Enter and the end of stdin, false for ctrl-C and when `signal`
 * aborts.
 */
export function pressEnter(prompt: string, signal: AbortSignal): Promise<boolean> {
  return read(prompt, { hidden: false, signal }).then(
    () => true,
    () => false,
  );
}

function read(
  question: string,
  { hidden, signal }: { hidden: boolean; signal: AbortSignal },
): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
    const lines = createInterface({
      input: process.stdin,
      output: hidden ? nowhere : process.stderr,
      terminal: true,
    });
    // The prompt is written after createInterface has turned off the terminal's echo. While the
    // echo is on, text typed quickly would be shown.
    if (hidden) process.stderr.write(question);
    let line: string | undefined;
    const interrupted = () => {
      reject(Interrupted.by(signal, 'Interrupted: nothing was done.'));
      lines.close();
    };
    lines.on('SIGINT', interrupted);
    signal.addEventListener('abort', interrupted, { once: true });
    lines.on('close', () => {
      signal.removeEventListener('abort', interrupted);
      if (hidden || line === undefined) process.stderr.write('\n');
      resolve(line);
    });
    lines.question(hidden ? '' : question, (typed) => {
      line = typed;
      lines.close();
    });
  });
}
