import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { makeDataDir } from '../../../../src/local/chain/disk/data-dir.ts';

void t.test('a missing data directory is created, an existing one stays as it is', async (t) => {
  const dir = join(t.testdir(), 'one', 'two');
  makeDataDir(dir);
  makeDataDir(dir);
  t.same(readdirSync(dir), []);
});

void t.test('a path that cannot be a data directory is refused with exit code 2', async (t) => {
  const file = join(t.testdir({ file: 'kept' }), 'file');
  for (const path of [file, join(file, 'below')])
    t.throws(
      () => makeDataDir(path),
      { name: 'OperatorError', exitCode: 2, message: /^--data-dir cannot be used: / },
      path,
    );
  t.ok(existsSync(file));
});
