import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { messageOf, OperatorError } from '../../../errors.ts';

/**
 * Creates the directory that --data-dir names. Throws an OperatorError (exit code 2) when this
 * process cannot write to the directory.
 */
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

// Creates a directory and its missing parents. Node's mkdir with `recursive` is not used, because
// it never returns for a path below a directory that accepts no files (such as /proc).
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

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * Paths of the lock files that this process holds. In a container, a restarted process often has
 * the same pid as its predecessor. A lock file with this process's pid is therefore stale unless
 * its path is in this set.
 */
const held = new Set<string>();

/**
 * Locks the directory that the flag `flag` names for this process. Returns a function that unlocks
 * it. Throws an OperatorError when another process holds the lock.
 */
export function lockDirectory(dir: string, flag: '--data-dir' | '--dir'): () => void {
  const path = resolve(dir, 'lock');
  const take = () => writeFileSync(path, String(process.pid), { flag: 'wx' });
  try {
    take();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const pid = Number(readFileSync(path, 'utf8'));
    if (pid === process.pid ? held.has(path) : Number.isInteger(pid) && pid > 0 && isRunning(pid)) {
      throw new OperatorError(
        `the directory ${dir} is in use by process ${pid}: stop it, or name another ${flag}`,
      );
    }
    rmSync(path);
    take();
  }
  held.add(path);
  return () => {
    held.delete(path);
    rmSync(path, { force: true });
  };
}
