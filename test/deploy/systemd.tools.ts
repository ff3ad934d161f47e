// The units of deploy/systemd, judged by systemd's own tools, with this machine's Node and this
// checkout put in.
import { execFile } from 'node:child_process';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { tool } from '../fixtures/tools.ts';

const execute = promisify(execFile);
const folder = new URL('../../deploy/systemd/', import.meta.url);
const root = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '');
const units = (await readdir(folder)).filter((name) => name.endsWith('.service'));

async function copy(t: Test): Promise<string[]> {
  const copies = await mkdtemp(join(tmpdir(), 'billing-units-'));
  t.teardown(() => rm(copies, { recursive: true }));
  await chmod(copies, 0o755);
  const timer = 'billing-reconcile.timer';
  await writeFile(join(copies, timer), await readFile(new URL(timer, folder)));
  return Promise.all(
    units.map(async (name) => {
      const text = await readFile(new URL(name, folder), 'utf8');
      const path = join(copies, name);
      await writeFile(
        path,
        text.replaceAll('/usr/bin/node', process.execPath).replaceAll('/opt/billing', root),
      );
      return path;
    }),
  );
}

void t.test('systemd-analyze verify reports no problem', async (t) => {
  const analyze = await tool('systemd-analyze');
  const { stdout, stderr } = await execute(analyze, [
    'verify',
    '--man=no',
    ...(await copy(t)).flatMap((path) =>
      path.includes('reconcile') ? [path, path.replace('.service', '.timer')] : [path],
    ),
  ]);
  t.equal(stdout + stderr, '');
});

void t.test('systemd-analyze security: the exposure of every unit is below 3.0', async (t) => {
  const analyze = await tool('systemd-analyze');
  for (const path of await copy(t)) {
    const { stdout } = await execute(analyze, [
      'security',
      '--offline=true',
      '--threshold=30',
      '--no-pager',
      path,
    ]);
    t.match(stdout, /Overall exposure level for billing-\S+: [0-2]\.\d/);
  }
});
