// Prompts, only on a terminal. They are written to stderr, so that stdout only has the result of
// the command.
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { Interrupted } from '../../errors.ts';

/** Whether a person can be asked: both streams are terminals. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/**
 * Asks for a yes. Everything else is a no: an empty line, ctrl-D. ctrl-C, and `signal`, throw an
 * Interrupted.
 */
export async function confirm(question: string, signal: AbortSignal): Promise<boolean> {
  return /^y(es)?$/i.test(
    (await read(`${question} [y/N] `, { hidden: false, signal }))?.trim() ?? '',
  );
}

/**
 * Asks for a secret, which is not shown while it is typed; empty for ctrl-D. ctrl-C, and `signal`,
 * throw an Interrupted.
 */
export async function askSecret(question: string, signal: AbortSignal): Promise<string> {
  return (await read(`${question}: `, { hidden: true, signal }))?.trim() ?? '';
}

/** Waits for Enter, or the end of stdin; false when it is ctrl-C that comes, or `signal` aborts. */
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
    // Prompts after the line above, which turns the terminal's echo off; otherwise fast input would
    // be shown.
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
