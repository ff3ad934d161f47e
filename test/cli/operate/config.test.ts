// billing config print: effective values, their sources, no secrets.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { describeVariables } from '../../../src/config/variables.ts';
import { runShared } from '../../fixtures/command.ts';

void t.test('config print shows each variable with its value and its source', async (t) => {
  const dir = t.testdir({ '.env': 'PORT=3100\nHOST=::1\nWEBHOOK_GUARD=false\n' });
  const file = join(dir, 'jwt');
  writeFileSync(file, 'hunter2 hunter2 hunter2 hunter2 hunter2');
  const env = {
    PORT: '3200',
    BILLING_ENV: 'production',
    DATABASE_URL: 'postgres://billing:hunter2@db1:5432,db2:5433/ledger?sslmode=verify-full',
    SOLANA_RPC_URL: 'https://user:hunter2@rpc.example/hunter2, https://b.example:8899/?key=hunter2',
    ENCRYPTION_KEY: 'hunter2 hunter2 hunter2 hunter2 hunter2',
    JWT_SECRET_FILE: file,
  };
  const args = ['config', 'print', '--env-file', join(dir, '.env')];
  const { code, stdout, stderr } = await runShared(args, env);
  t.equal(code, 0, stderr);
  t.equal(stdout.trim().split('\n').length, 1 + describeVariables().length);
  for (const line of [
    /^PORT +3200 +environment$/m,
    /^HOST +::1 +env file$/m,
    /^PUBLIC_URL +http:\/\/\[::1\]:3200 +derived$/m,
    /^WEBHOOK_GUARD +true +derived$/m,
    /^PLATFORM_FEE_BPS +100 +default$/m,
    /^USDC_MINT +- +unset$/m,
    /^DATABASE_URL +db1:5432, db2:5433, database "ledger" +environment$/m,
    /^SOLANA_RPC_URL +https:\/\/rpc\.example \(secret\), https:\/\/b\.example:8899 \(secret\) +environment$/m,
    /^ENCRYPTION_KEY +\(secret\) +environment$/m,
    /^JWT_SECRET +\(secret\) +environment: JWT_SECRET_FILE=/m,
  ])
    t.match(stdout, line);
  t.notMatch(stdout + stderr, 'hunter2');

  const told = await runShared([...args, '--json', '--set'], env);
  const { variables } = JSON.parse(told.stdout) as { variables: { name: string }[] };
  const given = Object.keys(env).map((name) => name.replace(/_FILE$/, ''));
  t.same(
    variables.map(({ name }) => name).toSorted(),
    [...given, 'HOST', 'PUBLIC_URL', 'WEBHOOK_GUARD'].toSorted(),
  );
  t.notMatch(told.stdout, 'hunter2');

  const wrong = await runShared(['config', 'print'], {
    PORT: 'many',
    JWT_SECRET: 'hunter2',
    DATABASE_URL: 'mysql://hunter2',
    SOLANA_RPC_ULR: 'x',
  });
  t.match(wrong, { code: 2, stdout: /^PORT +many +environment$/m });
  t.match(wrong.stderr, /PORT must be a whole number from 0 to 65535\./);
  t.match(wrong.stderr, /SOLANA_RPC_ULR is not a variable of billing\. Is SOLANA_RPC_URL meant\?/);
  t.notMatch(wrong.stdout + wrong.stderr, 'hunter2');
});
