// A test of one sentence of service.md, under its own words.
import t, { type Test } from 'tap';
import { promisingNothing, sentences, type Sentence } from './sentences.ts';

/** Declares the test. A misspelt sentence is an error of types. */
export function rule(sentence: Sentence, prove: (t: Test) => Promise<void> | void): void {
  if (!sentences.includes(sentence) || sentence in promisingNothing) throw new Error(`no sentence to be tested: ${sentence}`);
  void t.test(sentence, async (t) => prove(t));
}
