// Tests of the promises of docs/contract.md, each under its own words.
import type { Test } from 'tap';
import { promises } from './promises.ts';

/**
 * Returns what declares such a test in the file of `file`. It throws when docs/contract.md does not
 * make the promise.
 */
export function rulesIn(file: Test) {
  return (promise: string, prove: (t: Test) => Promise<void> | void): void => {
    if (!promises.includes(promise)) throw new Error(`docs/contract.md has no promise: ${promise}`);
    void file.test(promise, async (t) => prove(t));
  };
}
