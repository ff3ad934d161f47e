// A test of one promise of docs/contract.md, under its own words.
import t, { type Test } from 'tap';
import { promises } from './promises.ts';

/** Declares the test. Throws when docs/contract.md does not make this promise. */
export function rule(promise: string, prove: (t: Test) => Promise<void> | void): void {
  if (!promises.includes(promise)) throw new Error(`docs/contract.md has no promise: ${promise}`);
  void t.test(promise, async (t) => prove(t));
}
