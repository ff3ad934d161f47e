import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const root = fileURLToPath(new URL('../..', import.meta.url));

void t.test('the pictures of the README exist and have less than 300 KB in all', async (t) => {
  const text = await readFile(join(root, 'README.md'), 'utf8');
  const files = [...text.matchAll(/!\[[^\]]+\]\((docs\/pictures\/[^)]+)\)/g)].map(
    ([, file = '']) => file,
  );
  t.equal(files.length, 3);
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(root, file))).size));
  const whole = sizes.reduce((sum, size) => sum + size, 0);
  t.ok(whole < 300_000, `${whole} bytes`);
});
