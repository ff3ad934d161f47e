import { existsSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { messageOf, OperatorError } from '../errors.ts';

/** Makes the directory that --data-dir names, if it is not there, and sees that it can be written to. Throws an OperatorError (exit code 2) when not. */
export function makeDataDir(dir: string): void {
  try {
    make(resolve(dir));
    const probe = join(dir, `.probe-${process.pid}`);
    writeFileSync(probe, '');
    rmSync(probe);
  } catch (error) {
    throw new OperatorError(`--data-dir cannot be used: ${messageOf(error)}`, 2, { cause: error });
  }
}

// Not mkdir's own `recursive`: where nothing can be made in a directory that exists (/proc), it tries for ever.
function make(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path).isDirectory()) return;
    if (code !== 'ENOENT' || existsSync(dirname(path))) throw error;
    make(dirname(path));
    mkdirSync(path);
  }
}
