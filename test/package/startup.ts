// How long starts take by the clock on the wall. Only where nothing else runs, so it is no part of `npm test`: `npm run test:package`.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t from 'tap';

const root = fileURLToPath(new URL('../..', import.meta.url));

void t.test(
  '--help answers within 150 ms, serve is ready on a migrated database within 1.5 s',
  { timeout: 120_000 },
  async (t) => {
    const environment = ['PATH', 'HOME', 'TMPDIR']
      .map((name) => `${name}=${process.env[name] ?? ''}`)
      .filter((text) => !text.endsWith('='));
    // Nothing else in its environment: tap would have every Node that it starts load a part of tap.
    const command = [
      '-i',
      ...environment,
      process.execPath,
      '--import=tsx',
      'bench/run.ts',
      'start',
      '--json',
    ];
    const { stdout } = await promisify(execFile)('/usr/bin/env', command, { cwd: root });
    const { figures } = JSON.parse(stdout) as { figures: Record<string, number> };
    t.comment(figures);
    // The fastest of fifteen: whatever else runs can only make a start slower.
    t.ok((figures.helpFastestMs ?? Infinity) < 150);
    t.ok((figures.serveReadyFastestMs ?? Infinity) < 1500);
  },
);
