// import-x/no-cycle ignores imports of types, so circles of those are found here.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import ts from 'typescript';

const ROOT = new URL('../..', import.meta.url).pathname;

/** The files of src that a file of src names, types included. */
function importsOf(file: string): string[] {
  const { importedFiles } = ts.preProcessFile(readFileSync(join(ROOT, file), 'utf8'), true, false);
  return importedFiles
    .map(({ fileName }) => fileName)
    .filter((name) => name.startsWith('.'))
    .map((name) => join(dirname(file), name));
}

/** Every circle that a walk along the imports meets, as a path that ends where it began. */
function circlesIn(imports: ReadonlyMap<string, readonly string[]>): string[] {
  const circles: string[] = [];
  const finished = new Set<string>();
  const walk = (file: string, path: readonly string[]) => {
    const start = path.indexOf(file);
    if (start >= 0) circles.push([...path.slice(start), file].join(' -> '));
    if (start >= 0 || finished.has(file)) return;
    for (const next of imports.get(file) ?? []) walk(next, [...path, file]);
    finished.add(file);
  };
  for (const file of imports.keys()) walk(file, []);
  return circles;
}

void t.test('the import check finds a cycle of imports', async (t) => {
  const imports = { a: ['b', 'c'], b: ['c'], c: ['b'], d: ['a'] };
  t.strictSame(circlesIn(new Map(Object.entries(imports))), ['b -> c -> b']);
});

void t.test('imports of src form no cycle, types included', async (t) => {
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.tsx?$/.test(file))
    .map((file) => join('src', file));
  t.strictSame(circlesIn(new Map(files.map((file) => [file, importsOf(file)]))), []);
});
