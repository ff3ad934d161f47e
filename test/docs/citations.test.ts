// A page that a comment, a text or another page cites is a file of the repository.
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const root = fileURLToPath(new URL('../..', import.meta.url));
const folders = [
  'src',
  'test',
  'bench',
  'scripts',
  'sql',
  'program',
  'docs',
  'deploy',
  'bin',
  '.ci',
];
const single = ['README.md', 'CHANGELOG.md', 'Dockerfile', '.env.example', 'eslint.config.js'];
/** Files that name pages which are not part of the repository. */
const exempt = ['test/docs/citations.test.ts', 'test/contract/promises.test.ts'];

/** The pages that `text`, the content of `file`, cites and that are not there. */
function missing(file: string, text: string): string[] {
  const cited = [...text.matchAll(/(?<![\w./:@-])[\w./-]+\.md\b/g)].map(([name]) => name);
  return cited.filter(
    (name) =>
      ![root, join(root, 'docs'), dirname(join(root, file))].some((folder) =>
        existsSync(join(folder, name)),
      ),
  );
}

void t.test('every page that is cited is in the repository', async (t) => {
  const found = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(root, folder), { recursive: true, withFileTypes: true }))
        .filter(
          (entry) =>
            entry.isFile() &&
            /(\.(ts|tsx|js|sql|c|h|md|yaml|yml|service|sh)|^run)$/.test(entry.name),
        )
        .map((entry) => join(entry.parentPath, entry.name).slice(root.length)),
    ),
  );
  const files = [...found.flat(), ...single].filter((file) => !exempt.includes(file));
  t.ok(files.length > 500, String(files.length));
  for (const file of files) {
    const lost = missing(file, await readFile(join(root, file), 'utf8'));
    if (lost.length > 0) t.fail(`${file} cites ${lost.join(', ')}`);
  }
});

void t.test('a page that is not there is noticed', (t) => {
  t.same(missing('src/log.ts', 'as docs/contract.md and contract.md say'), []);
  t.same(missing('docs/chain.md', '[operators](operators.md), [bench](../bench/README.md)'), []);
  t.same(missing('src/log.ts', '(decisions.md, Money) and shared/service.md'), [
    'decisions.md',
    'shared/service.md',
  ]);
  t.end();
});
