// Node (20 to 24) takes --env-file for itself, also behind the program's path: a missing file ends
// it before the program starts. Behind "--" all options are the program's.
import { readdir, readFile } from 'node:fs/promises';
import t from 'tap';

const root = new URL('../../', import.meta.url);

void t.test('everywhere that node starts the program, "--" stands before the path', async (t) => {
  const folders = ['deploy', 'docs'].map(async (folder) => {
    const found = await readdir(new URL(folder, root), { recursive: true, withFileTypes: true });
    return found.filter((one) => one.isFile()).map((one) => `${one.parentPath}/${one.name}`);
  });
  const single = ['Dockerfile', 'README.md', 'package.json'].map(
    (name) => new URL(name, root).pathname,
  );
  let forms = 0;
  for (const path of [...single, ...(await Promise.all(folders)).flat()]) {
    for (const line of (await readFile(path, 'utf8')).split('\n')) {
      if (!/\bnode\b.*bin\/billing\.js/.test(line)) continue;
      forms += 1;
      t.match(line, /["', ]--["', ]+[\w/.]*bin\/billing\.js/, `${path}: ${line.trim()}`);
    }
  }
  t.ok(forms >= 11, `${forms} forms`);
});
