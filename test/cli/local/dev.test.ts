// billing dev with a service that runs elsewhere. With its own sandbox: docs/quick-start.md, which
// test/docs/quick-start.tools.ts runs.
import { execFileSync } from 'node:child_process';
import { access, mkdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import t, { type Test } from 'tap';
import { generateKey } from '../../../src/domain/accounts/keys.ts';
import { runShared, start } from '../../fixtures/command.ts';
import { startReceiver } from '../../fixtures/receiver.ts';
import { insertPlan } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';

void t.test(
  'dev --api-url forwards events, writes the environment for its owner alone, and never prints the key',
  async (t) => {
    const served = await startServe(t);
    const merchant = await served.merchant();
    const env = { BILLING_API_KEY: merchant.key };
    const receiver = await startReceiver(t);
    const dir = join(t.testdir(), 'mine');
    const args = ['dev', '--api-url', served.url, '--forward-to', receiver.url, '--dir', dir];
    t.match(await runShared(args, env), {
      code: 1,
      stdout: '',
      stderr: /has no active plan: publish one on the dashboard/,
    });

    const planId = await insertPlan(served.sql, merchant);
    const running = start(t, args, env);
    await running.line('ctrl-C ends it');
    const file = join(dir, 'env');
    t.equal((await stat(file)).mode & 0o777, 0o600);
    const values = parseEnv(await readFile(file, 'utf8'));
    t.match(values, {
      BILLING_API_URL: served.url,
      BILLING_API_KEY: merchant.key,
      WEBHOOK_SECRET: /^whsec_/,
      APP: merchant.appId,
      PLAN: planId,
    });
    t.match(await runShared(args, env), {
      code: 1,
      stdout: '',
      stderr: `billing: the directory ${dir} is in use by process ${running.child.pid}: stop it, or name another --dir\n`,
    });
    t.same(parseEnv(await readFile(file, 'utf8')), values, 'and its file stays');
    await running.line(/^checkout +http:\S+\/checkout\/\S+$/);
    // In the shell that has read the file.
    const shell = Object.fromEntries(
      Object.entries(values).map(([name, value = '']) => [name, value]),
    );
    t.match(await runShared(['trigger', 'payment_success'], shell), { code: 0 });
    await receiver.got(1);
    await running.line(/payment_success \(sample\).*20\d in/);
    await running.line(/^ +"type": "payment_success",$/);
    running.child.kill('SIGINT');
    const { code, stdout, stderr } = await running.ended;
    t.match({ code, stderr }, { code: 0, stderr: 'Stopped: 1 forwarded, 0 failed.\n' });
    t.notMatch(stdout, merchant.key);
    await t.rejects(access(file), 'it is for the time of the run');

    const second = start(t, args, env);
    await second.line('ctrl-C ends it');
    second.child.kill('SIGHUP');
    t.match(await second.ended, { code: 0, stderr: 'Stopped: 0 forwarded, 0 failed.\n' });
    await t.rejects(access(file), 'the end of the terminal is the end of the run');
  },
);

/** An API that answers as a hostile one would, and keeps requests for events open. */
function hostileApi(t: Test, { app = UUID, plan = UUID, page = 'https://shop.test/' }) {
  const answers: [RegExp, unknown][] = [
    [/\/events\/next\?/, undefined],
    [/\/events\/next$/, { events: [], cursor: 'c' }],
    [/\/checkout-sessions$/, { url: page }],
    [/\/plans\?/, [{ id: plan, status: 'active' }]],
    [/\/merchant\/apps/, [{ id: app, name: 'Tea' }]],
  ];
  return startReceiver(t, (response, { path }) => {
    const [, data] = answers.find(([pattern]) => pattern.test(path)) ?? [];
    if (data !== undefined) response.end(JSON.stringify({ success: true, data }));
  });
}

const UUID = '01890000-0000-7000-8000-000000000000';

void t.test('dev --api-url takes ids from the API as UUIDs, and a page as a URL', async (t) => {
  const { key } = generateKey('development');
  for (const [answer, words] of [
    [{ app: 'x; touch ran #' }, /named an app whose id is not a UUID/],
    [{ plan: '$(touch ran)' }, /named a plan whose id is not a UUID/],
    [{ page: 'javascript:alert(1)' }, /named a checkout page without an http/],
  ] as const) {
    const { url } = await hostileApi(t, answer);
    const dir = join(t.testdir(), 'dev');
    const args = ['dev', '--api-url', url.replace(/\/$/, ''), '--dir', dir];
    t.match(await runShared(args, { BILLING_API_KEY: key }), { code: 1, stderr: words });
    await t.rejects(access(join(dir, 'env')));
  }
});

void t.test(
  'a shell that reads the environment file of dev executes nothing in its values',
  async (t) => {
    const { key } = generateKey('development');
    const { url } = await hostileApi(t, {});
    const dir = t.testdir();
    await mkdir(join(dir, 'a b'));
    const apiUrl = `${url}$(touch ran);touch ran`;
    const args = ['dev', '--api-url', apiUrl, '--dir', join(dir, 'a b')];
    const running = start(t, args, { BILLING_API_KEY: key });
    await running.line('ctrl-C ends it');
    const script = '. "./a b/env"; printf %s "$BILLING_API_URL"';
    t.equal(execFileSync('/bin/sh', ['-euc', script], { cwd: dir, encoding: 'utf8' }), apiUrl);
    await t.rejects(access(join(dir, 'ran')));
    running.child.kill('SIGINT');
    t.match(await running.ended, { code: 0 });
  },
);
