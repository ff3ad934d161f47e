import { spawn } from 'node:child_process';
import { openSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { testDatabase } from '../../fixtures/postgres.ts';

const program = fileURLToPath(new URL('../../../bin/billing.js', import.meta.url));

void t.test('a command whose output does not fit on the disk fails with one line', async (t) => {
  const { sql, url } = await testDatabase(t);
  await sql`
    with merchant as (insert into merchants (wallet) values ('wallet') returning id)
    insert into api_keys (merchant_id, prefix, hash)
    select id, 'sk_test_' || lpad(number::text, 6, '0'), sha256(number::text::bytea)
    from merchant, generate_series(1, 2500) as number`;
  const env = { DATABASE_URL: url, ENCRYPTION_KEY: 'an encryption key of 32 bytes ...' };
  for (const args of [
    'keys list --json',
    'keys list',
    '--help',
    'migrate --json',
    'config print',
  ]) {
    const full = openSync('/dev/full', 'w');
    const child = spawn(process.execPath, [program, ...args.split(' ')], {
      env,
      stdio: ['ignore', full, 'pipe'],
    });
    const [stderr, code] = await Promise.all([
      text(child.stderr!),
      new Promise((resolve) => child.once('exit', resolve)),
    ]);
    t.equal(code, 1, args);
    t.match(
      stderr,
      /^billing: the output could not be written: ENOSPC: no space left[^\n]*\n$/,
      args,
    );
  }
});
