// `billing deliveries` and `billing replay` as a merchant runs them: with an API key and without
// the database.
import { chmodSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { generateKey } from '../../../src/domain/accounts/keys.ts';
import { workOnReplays } from '../../../src/domain/outbox/replay.ts';
import { run, runShared } from '../../fixtures/command.ts';
import { insertEvent, insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';
import { startTerminal } from '../../fixtures/terminal.ts';
import { finishDeliveries } from '../../fixtures/webhooks.ts';

const served = await startServe(t);

/** A merchant with an endpoint and `count` deliveries, the first `failed` of which have failed. */
async function merchantWith(count: number, failed: number) {
  const { sql, url } = served;
  const merchant = await served.merchant();
  const { appId } = merchant;
  await sql`insert into webhook_endpoints (app_id, url, secret) values (${appId}, 'http://127.0.0.1:1/', '')`;
  const planId = await insertPlan(sql, merchant);
  const subscriptionId = await insertSubscription(sql, { appId, planId });
  for (let made = 0; made < count; made += 1) await insertEvent(sql, subscriptionId);
  const queued = () => sql<{ id: string; replayOf: string | null }[]>`
    select id, replay_of from all_deliveries
    where endpoint_id in (select id from webhook_endpoints where app_id = ${appId}) order by id desc`;
  const ids = (await queued()).map(({ id }) => id);
  if (failed > 0) await finishDeliveries(sql, 'failed', { ids: ids.slice(0, failed), attempts: 6 });
  const replayed = async () =>
    (await queued()).flatMap(({ replayOf }) => (replayOf === null ? [] : [replayOf]));
  const env = { BILLING_API_KEY: merchant.key, BILLING_API_URL: url };
  return { merchant, env, ids, replayed };
}

void t.test(
  'deliveries over the API prints a table of the newest or JSON lines of all pages, with filters',
  async (t) => {
    const { env, ids, merchant } = await merchantWith(130, 3);
    const shown = await runShared(['deliveries', '--limit', '2'], env);
    t.equal(shown.code, 0, shown.stderr);
    t.match(shown.stdout, /^DELIVERY +QUEUED +STATUS +TYPE +TRIES +NEXT ATTEMPT +ENDPOINT$/m);
    t.same(shown.stdout.match(/^[0-9a-f-]{36}/gm), ids.slice(0, 2));
    t.match(shown.stderr, 'These are the newest 2: --limit <n> shows more.');
    const idsOf = (stdout: string) =>
      stdout.split('\n').map((line) => (JSON.parse(line) as { id: string }).id);
    const all = await runShared(['deliveries', '--json', '--limit', '1000'], env);
    t.same(idsOf(all.stdout), ids);
    const file = join(t.testdir(), 'key');
    await writeFile(file, merchant.key);
    const keyed = ['--api-url', served.url, '--api-key-file', file];
    const failed = await runShared(
      ['deliveries', '--json', '--status', 'failed', '--since', '1h', ...keyed],
      {
        DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
      },
    );
    t.same(idsOf(failed.stdout), ids.slice(0, 3), 'the flags come before DATABASE_URL');
    t.match(await runShared(['deliveries', '--until', '7d'], env), {
      code: 0,
      stdout: '',
      stderr: 'No delivery matches.\n',
    });
  },
);

void t.test(
  'replay over the API by filters counts, asks, and waits until all are queued',
  async (t) => {
    const { env, ids, replayed } = await merchantWith(5, 3);
    const args = ['replay', '--status', 'failed', '--since', '30m'];
    t.match(await runShared([...args, '--dry-run'], env), {
      code: 0,
      stdout: '3 match (3 failed).',
    });
    t.match(await runShared(args, env), { code: 2, stderr: /add --yes to queue them/ });
    const asked = startTerminal(t, args, { env });
    await asked.waitFor('Queue 3 again? [y/N]');
    asked.press('ctrl-c');
    t.match(await asked.ended, { code: 130 });
    t.same(await replayed(), []);
    const done = runShared([...args, '--yes', '--json'], env);
    // Does the work of the loop of `serve`, in case another process's loop does not do it.
    await workOnReplays(served.sql);
    const { code, stdout } = await done;
    t.equal(code, 0);
    t.match(JSON.parse(stdout), {
      matching: [{ status: 'failed', count: 3 }],
      deliverable: 3,
      queued: 3,
      finished: true,
    });
    t.same((await replayed()).toSorted(), ids.slice(0, 3).toSorted());
  },
);

void t.test(
  'replay over the API waits out the rate limit, queues each id once, and names those left after a failure',
  async (t) => {
    const { sql } = served;
    let wasRefused = false;
    // A longer minute where the machine is so slow that it ended before the command had spent it.
    for (let seconds = 4; !wasRefused; seconds *= 2) {
      const { merchant, env, ids, replayed } = await merchantWith(4, 4);
      const subject = `merchant:${merchant.merchantId}`;
      await sql`insert into rate_budgets (subject, number, ends_at, spent, granted, most)
        values (${subject}, 1000, now() + ${seconds} * interval '1 second', 98, 0, 100)`;
      t.match(await runShared(['replay', ...ids, '--yes'], env), { code: 0, stdout: /Queued 4\./ });
      t.same((await replayed()).toSorted(), ids.toSorted());
      const [budget] = await sql<{ spent: number }[]>`
        select spent from rate_budgets where subject = ${subject} and number = 1000`;
      wasRefused = budget?.spent === 100;
    }
    const { env, ids } = await merchantWith(4, 4);
    const unknown = '01999999-0000-7000-8000-000000000001';
    const failed = await runShared(['replay', ids[0]!, unknown, ids[1]!, '--yes'], env);
    t.match(failed, {
      code: 1,
      stderr: `billing: There is no such delivery. 1 are queued; left are: ${unknown} ${ids[1]!}`,
    });
  },
);

void t.test(
  'replay over the API by ids refuses wrong usage and deliveries of another merchant',
  async (t) => {
    const { env, ids, replayed } = await merchantWith(2, 2);
    const other = await merchantWith(1, 1);
    t.match(await runShared(['replay', ...ids, '--yes'], env), { code: 0, stdout: /Queued 2\./ });
    t.same((await replayed()).toSorted(), ids.toSorted());
    t.match(await runShared(['replay', other.ids[0]!, '--yes'], env), {
      code: 1,
      stderr: 'billing: There is no such delivery.\n',
    });
    t.match(await runShared(['replay', '--webhook', ids[0]!], env), {
      code: 2,
      stderr: /Over the API a replay selects by app/,
    });
    t.match(await runShared(['replay', '--since', 'yesterday'], env), {
      code: 2,
      stderr: /or 30m, 6h, 7d before now/,
    });
  },
);

void t.test('deliveries over the API prints the table on a terminal too', async (t) => {
  const { env, ids } = await merchantWith(3, 1);
  const shown = startTerminal(t, ['deliveries'], { env, columns: 200 });
  t.match(await shown.ended, { code: 0 });
  t.equal(shown.buffer(), 'normal');
  for (const id of ids) t.match(shown.screen(), new RegExp(`^${id} .*payment_success`, 'm'));
});

void t.test(
  'login keeps a key with its URL, readable by its owner only; commands use it until logout',
  async (t) => {
    const { merchant, ids } = await merchantWith(1, 0);
    const home = t.testdir();
    const path = join(home, 'billing', 'profiles.json');
    const at = { XDG_CONFIG_HOME: home };
    const key = join(home, 'key');
    await writeFile(key, merchant.key);
    const wrong = { ...at, BILLING_API_KEY: generateKey('development').key };
    t.match(await runShared(['login', '--api-url', served.url], wrong), {
      code: 1,
      stderr: /The API key is unknown or has been revoked/,
    });
    t.throws(() => statSync(path), 'a key that the API refuses is not kept');
    const file = ['--api-key-file', key, '--api-url', `${served.url}/`];
    const done = await runShared(['login', ...file, '--profile', 'shop'], at);
    t.match(done, { code: 0, stdout: new RegExp(`Logged in at ${served.url} as .*"shop"`) });
    t.notMatch(done.stdout, merchant.key);
    t.equal(statSync(path).mode & 0o777, 0o600);

    const list = ['deliveries', '--json'];
    const noKey = { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none', ...at };
    t.match(await runShared([...list, '--profile', 'shop'], noKey), { stdout: ids[0]! });
    t.match(await runShared(list, at), { code: 2, stderr: /DATABASE_URL is required/ });
    await runShared(['login'], {
      ...at,
      BILLING_API_KEY: merchant.key,
      BILLING_API_URL: served.url,
    });
    t.match(await runShared(list, at), { stdout: ids[0]! }, 'the default profile');
    t.match(await runShared([...list, '--api'], noKey), { stdout: ids[0]! });

    const keptElsewhere = new RegExp(
      `^billing: An API key for http://127\\.0\\.0\\.1:1 is needed: .* keeps is for ${served.url}\\. `,
    );
    t.match(
      await runShared(list, { ...at, BILLING_API_URL: 'http://127.0.0.1:1/' }),
      { code: 2, stdout: '', stderr: keptElsewhere },
      'both URLs are named',
    );
    const elsewhere = ['--api-url', 'http://127.0.0.1:1'];
    t.match(
      await runShared([...list, ...elsewhere], at),
      { code: 2, stderr: keptElsewhere },
      'the key is for another URL',
    );
    t.match(await runShared([...list, ...elsewhere, '--profile', 'shop'], at), {
      code: 2,
      stderr: /The API key of the profile "shop" is for http/,
    });
    t.match(await runShared([...list, '--profile', 'none'], at), {
      code: 2,
      stderr: /"billing login --profile none" makes it/,
    });

    chmodSync(path, 0o644);
    t.match(await runShared(list, at), { code: 2, stderr: /other users can read it: chmod 600/ });
    await writeFile(`${path}.new`, 'left behind', { mode: 0o644 });
    const again = { ...at, BILLING_API_KEY: merchant.key, BILLING_API_URL: served.url };
    t.match(
      await runShared(['login'], again),
      { code: 0, stderr: '' },
      'login makes the file anew',
    );
    t.equal(statSync(path).mode & 0o777, 0o600);
    t.match(await runShared([...list, '--profile', 'shop'], noKey), { stdout: ids[0]! });
    t.match(await runShared(['logout'], at), {
      code: 0,
      stdout: /stays valid until it is revoked/,
    });
    t.match(await runShared(['logout'], at), { code: 1, stderr: /There is no profile "default"/ });
    t.match(await runShared(list, at), { code: 2, stderr: /DATABASE_URL is required/ });
  },
);

void t.test(
  'without key, profile and DATABASE_URL, deliveries and replay name these three ways to connect',
  async (t) => {
    for (const args of [
      ['deliveries', '--limit', '3'],
      ['replay', '--dry-run'],
    ])
      t.match(
        await runShared(args),
        {
          code: 2,
          stdout: '',
          stderr: /"billing login", or set BILLING_API_KEY\. .*DATABASE_URL is required/,
        },
        args.join(' '),
      );
  },
);

void t.test(
  'login without a key and without a terminal prints which inputs it accepts',
  async (t) => {
    const { code, stdout, stderr } = await run(t, ['login', '--api-url', served.url]);
    t.match({ code, stdout }, { code: 2, stdout: '' });
    t.match(stderr, /needs the API key: set BILLING_API_KEY, .*--api-key-file, .*a terminal/);
    t.notMatch(stderr, 'log in with "billing login"');
  },
);
