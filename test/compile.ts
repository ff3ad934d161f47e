// Compiles the TypeScript of the project once per run of the suite, file by file, so that no test
// process has to.
import { readFile, readdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, stop, type Plugin } from 'esbuild';
import { moduleOptions } from '../scripts/modules.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const folders = ['src', 'test', 'bench', 'scripts'];

/** Imports between files stay imports, with the compiled file's ending. JSON is bundled. */
const relativeImports: Plugin = {
  name: 'relative-imports',
  setup(esbuild) {
    esbuild.onResolve({ filter: /^\.{1,2}\/.*\.(?:tsx?|js)$/ }, ({ kind, path }) =>
      kind === 'entry-point' ? undefined : { path: path.replace(/\.tsx?$/, '.js'), external: true },
    );
  },
};

/**
 * A test file, named for its kind (`*.test.ts`, `*.long.ts`), gets the `tap` that its worker made
 * for it; the query makes a module of its own for each file.
 */
const fileTests: Plugin = {
  name: 'file-tests',
  setup(esbuild) {
    esbuild.onResolve({ filter: /^tap$/ }, ({ importer }) => {
      if (!/\.[a-z]+\.tsx?$/.test(importer)) return undefined;
      const path = relative(dirname(importer), join(root, 'test/file-test.js'));
      return {
        path: `${path.startsWith('.') ? path : `./${path}`}?${relative(root, importer)}`,
        external: true,
      };
    });
  },
};

/**
 * `import.meta.url` stays the source file's, so that paths relative to it lead to fixtures,
 * migrations and the program.
 */
const sourceUrls: Plugin = {
  name: 'source-urls',
  setup(esbuild) {
    esbuild.onLoad({ filter: /\.tsx?$/ }, async ({ path }) => ({
      contents: (await readFile(path, 'utf8')).replaceAll(
        /\bimport\.meta\.url\b/g,
        JSON.stringify(pathToFileURL(path).href),
      ),
      loader: path.endsWith('x') ? 'tsx' : 'ts',
    }));
  },
};

/** The TypeScript files of the project's code, relative to its root. */
async function sources(): Promise<string[]> {
  const found = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(root, folder), { recursive: true })).map((name) => join(folder, name)),
    ),
  );
  return found.flat().filter((name) => /\.tsx?$/.test(name));
}

/**
 * Writes `outdir/test/x.test.js` for `test/x.test.ts`, and so on for each source file, with source
 * maps.
 */
export async function compile(outdir: string): Promise<void> {
  await build({
    ...moduleOptions,
    treeShaking: false,
    packages: 'external',
    absWorkingDir: root,
    entryPoints: await sources(),
    outbase: root,
    outdir,
    plugins: [fileTests, relativeImports, sourceUrls],
  });
  await stop();
}
