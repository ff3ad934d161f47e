import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { supervise } from '../../../src/local/sandbox/supervise.ts';
import { emptyDirectory } from '../../fixtures/directory.ts';

/** A program that writes 200 KB, reports to `port` that it has run, and ends. */
async function program(t: Test, port: number): Promise<string> {
  const file = join(await emptyDirectory(t), 'program.mjs');
  await writeFile(
    file,
    `process.stdout.write('x'.repeat(200_000) + '\\n', () => {
       console.error('the last line');
       fetch('http://127.0.0.1:${port}/');
     });`,
  );
  return file;
}

for (const disk of ['full', 'with room'])
  void t.test(`the sandbox supervises a process whose log is on a disk ${disk}`, async (t) => {
    const runs = createServer((_request, response) => response.end());
    runs.listen(0, '127.0.0.1');
    await once(runs, 'listening');
    t.teardown(() => runs.close());
    const { port } = runs.address() as AddressInfo;
    const logFile = disk === 'full' ? '/dev/full' : join(await emptyDirectory(t), 'log');
    const child = supervise({
      name: 'program',
      args: [],
      program: await program(t, port),
      env: {},
      logFile,
      readyUrl: `http://127.0.0.1:${port}/`,
    });
    for (let run = 0; run < 3; run += 1) await once(runs, 'request');
    t.ok(child.restarts() >= 2, 'started again');
    await child.ready();
    await child.stop();
    if (disk === 'full') return;
    const lines = (await readFile(logFile, 'utf8')).trimEnd().split('\n');
    t.ok(lines.length >= 6);
    t.match(lines.slice(0, 2), ['x'.repeat(200_000), 'the last line']);
  });
