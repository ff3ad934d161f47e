// Questions, on a terminal alone. They are written to stderr, so that stdout keeps nothing but the answer of the command.
import { createInterface } from 'node:readline';
import { OperatorError } from '../errors.ts';

/** Whether anybody is there to ask. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks for a yes. Everything else is a no: an empty line, ctrl-D. ctrl-C, and `signal`, throw an OperatorError. */
export async function confirm(question: string, signal: AbortSignal): Promise<boolean> {
  return /^y(es)?$/i.test((await read(`${question} [y/N] `, signal))?.trim() ?? '');
}

function read(question: string, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: process.stdin, output: process.stderr, terminal: true });
    let line: string | undefined;
    const interrupted = () => {
      reject(new OperatorError('Interrupted: nothing was done.'));
      lines.close();
    };
    lines.on('SIGINT', interrupted);
    signal.addEventListener('abort', interrupted, { once: true });
    lines.on('close', () => {
      signal.removeEventListener('abort', interrupted);
      if (line === undefined) process.stderr.write('\n');
      resolve(line);
    });
    lines.question(question, (typed) => {
      line = typed;
      lines.close();
    });
  });
}
