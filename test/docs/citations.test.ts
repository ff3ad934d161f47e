// A page or a test that a comment, a text or another page cites is in the repository.
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

void t.test('every page that comments and docs cite exists in the repository', async (t) => {
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

void t.test('missing() lists cited pages that do not exist', (t) => {
  t.same(missing('src/log.ts', 'as docs/contract.md and contract.md say'), []);
  t.same(missing('docs/chain.md', '[operators](operators.md), [bench](../bench/README.md)'), []);
  t.same(missing('src/log.ts', '(decisions.md, Money) and shared/service.md'), [
    'decisions.md',
    'shared/service.md',
  ]);
  t.end();
});

void t.test('every test file that a page cites by its path exists', async (t) => {
  const pages = ['README.md', ...(await readdir(join(root, 'docs'))).map((name) => `docs/${name}`)];
  let cited = 0;
  for (const page of pages.filter((name) => name.endsWith('.md'))) {
    const text = await readFile(join(root, page), 'utf8');
    for (const [path] of text.matchAll(/\btest\/[\w./-]+\.(test|tools|browser|long)\.tsx?\b/g)) {
      cited += 1;
      t.ok(existsSync(join(root, path)), `${page} cites ${path}`);
    }
  }
  t.ok(cited > 3, String(cited));
});

const plain = (text: string) => text.replaceAll(/\s+/g, ' ').replaceAll('’', "'");

/** The tests that docs/postgres-notes.md cites by file and title. */
function citedTests(notes: string): { file: string; title: string }[] {
  const items = notes.matchAll(/^ +- `([\w-]+\.test\.ts)`: ([^]*?)\.$(?=\n(?:\n|\d| *-|$))/gm);
  return [...items].flatMap(([, file = '', titles = '']) =>
    plain(titles)
      .split('; ')
      .map((title) => ({ file, title })),
  );
}

void t.test('every test title that docs/postgres-notes.md cites exists', async (t) => {
  const notes = await readFile(join(root, 'docs/postgres-notes.md'), 'utf8');
  const cited = citedTests(notes);
  t.equal(
    new Set(cited.map(({ file }) => file)).size,
    new Set(notes.match(/`[\w-]+\.test\.ts`/g)).size,
    'each file that is named',
  );
  t.ok(cited.length > 10, String(cited.length));
  for (const { file, title } of cited) {
    const source = plain(await readFile(join(root, 'test/db/postgres', file), 'utf8'));
    const isThere = [...source.matchAll(/\btest\( ?(['"`])(.+?)\1,/g)].some(
      ([, , found = '']) => found.replace(/, \$\{\w+\}$/, '') === title,
    );
    t.ok(isThere, `${file}: ${title}`);
  }
});

void t.test('citedTests() returns each cited file with its titles', (t) => {
  t.same(citedTests('   - `a.test.ts`: one of\n     two; three.\n   - `b.test.ts`: four.\n'), [
    { file: 'a.test.ts', title: 'one of two' },
    { file: 'a.test.ts', title: 'three' },
    { file: 'b.test.ts', title: 'four' },
  ]);
  t.end();
});
