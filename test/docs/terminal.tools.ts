// The commands of docs/terminal.md, in a shell, with piped output.
import { spawn } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { withoutProgress } from '../fixtures/command.ts';
import { randomAddress } from '../fixtures/http.ts';
import { blocksOf } from '../fixtures/pages.ts';
import { testDatabase } from '../fixtures/postgres.ts';
import { insertEvent, insertPlan, insertSubscription } from '../fixtures/rows.ts';
import { startServe } from '../fixtures/serve.ts';
import { needTools } from '../fixtures/tools.ts';
import { queueDeliveries, seedApp, finishDeliveries, changeType } from '../fixtures/webhooks.ts';

void t.test(
  'every command in docs/terminal.md works, and its pipeline replays the selected deliveries',
  async (t) => {
    await needTools('bash', 'jq', 'xargs');
    const { sql, url } = await testDatabase(t);
    const app = await seedApp(sql, 'http://127.0.0.1:1/hook');
    // More than the pipeline takes: its end is closed while it is still being written to.
    const ids = await queueDeliveries(sql, app, 25);
    await finishDeliveries(sql, 'failed');
    await changeType(sql, ids.slice(0, 3), 'payment_failed');
    const dir = t.testdir();
    const program = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
    await writeFile(
      join(dir, 'billing'),
      `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`,
    );
    await chmod(join(dir, 'billing'), 0o755);

    const all = (await blocksOf('terminal.md')).filter(({ language }) => language === 'sh');
    t.equal(all.length, 3);
    const blocks = all.slice(0, 2);
    for (const { code } of blocks) {
      const shell = spawn('bash', ['-eu', '-c', code], {
        env: { PATH: `${dir}:${process.env.PATH ?? ''}`, DATABASE_URL: url, APP: app.appId },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const ended = new Promise((resolve) => shell.on('close', resolve));
      const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
      t.equal(await ended, 0, code);
      t.equal(withoutProgress(stderr), '', code);
      t.match(
        stdout,
        code.includes('replay')
          ? /Queued 20\./
          : /payment_success[^]*\n([^\n]*failed +payment_failed[^\n]*\n){3}$/,
      );
    }
    const replayed = await sql<
      { of: string }[]
    >`select replay_of as of from all_deliveries where replay_of is not null`;
    const newest = await sql<
      { of: string }[]
    >`select id as of from all_deliveries where replay_of is null order by id desc limit 20`;
    t.same(
      new Set(replayed.map(({ of }) => of)),
      new Set(newest.map(({ of }) => of)),
      'the newest twenty, each once',
    );
  },
);

void t.test(
  'with an API key the commands of the terminal page work without a database',
  async (t) => {
    const served = await startServe(t);
    const { key, appId } = await served.merchant();
    await served.sql`insert into webhook_endpoints (app_id, url, secret) values (${appId}, 'http://127.0.0.1:1/', '')`;
    const planId = await insertPlan(served.sql, { appId, wallet: randomAddress() });
    const subscriptionId = await insertSubscription(served.sql, { appId, planId });
    await insertEvent(served.sql, subscriptionId);
    await finishDeliveries(served.sql, 'failed');
    const block = (await blocksOf('terminal.md'))
      .filter(({ language }) => language === 'sh')
      .at(-1);
    const program = fileURLToPath(new URL('../../bin/billing.js', import.meta.url));
    const shell = spawn(
      'bash',
      ['-euc', `billing() { "$NODE" "$PROGRAM" "$@"; }\n${block!.code}`],
      {
        env: {
          PATH: process.env.PATH ?? '',
          NODE: process.execPath,
          PROGRAM: program,
          BILLING_API_URL: served.url,
          BILLING_API_KEY: key,
        },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr)]);
    t.equal(withoutProgress(stderr), '');
    t.match(
      stdout,
      /failed +payment_success[^]*1 match \(1 failed\)\.\n1 match \(1 failed\)\.\nQueued 1\./,
    );
  },
);
