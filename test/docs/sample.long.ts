// The README's sample of a sandbox run is the output of the command, but for its numbers.
import { readFile } from 'node:fs/promises';
import t from 'tap';
import { SAMPLE_ARGS, sampleOf, samplePattern, shapeOf } from '../../scripts/readme-sample.ts';
import { run } from '../fixtures/command.ts';

void t.test('the sample output in the README equals the output of a run', async (t) => {
  const { code, stdout } = await run(t, SAMPLE_ARGS);
  t.equal(code, 0);
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
  const [sample = ''] = samplePattern.exec(readme) ?? [];
  t.equal(shapeOf(sample), shapeOf(sampleOf(stdout)), 'npm run pictures writes it');
});
