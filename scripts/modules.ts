// The esbuild options for code that runs in Node.
import type { BuildOptions } from 'esbuild';

export const moduleOptions = {
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  sourcemap: true,
  sourcesContent: false,
  logLevel: 'warning',
} as const satisfies BuildOptions;
