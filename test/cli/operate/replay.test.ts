import t from 'tap';
import { preload, runShared, start } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import {
  insertEvent,
  insertMerchant,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';
import { startTerminal } from '../../fixtures/terminal.ts';
import { until, finishDeliveries } from '../../fixtures/webhooks.ts';

/** Makes a Node process say that it has received the signal. */
const tellsOfSignal = preload(`process.on('SIGINT', () => console.error('SIGINT'));`);

void t.test(
  'replay counts, asks (or needs --yes), and resumes after an interruption without queueing twice',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const merchant = await insertMerchant(sql);
    await sql`insert into webhook_endpoints (app_id, url, secret) values (${merchant.appId}, 'http://127.0.0.1:1/', '')`;
    const planId = await insertPlan(sql, merchant);
    const subscriptionId = await insertSubscription(sql, { appId: merchant.appId, planId });
    for (let made = 0; made < 3; made += 1) await insertEvent(sql, subscriptionId);
    await finishDeliveries(sql, 'failed', { attempts: 6 });
    const env = { DATABASE_URL: url };
    const args = ['replay', '--app', merchant.appId, '--status', 'failed'];
    const replays = async () =>
      (await sql`select 1 from all_deliveries where replay_of is not null`).length;

    t.match(await runShared(args, env), {
      code: 2,
      stdout: '3 match (3 failed).',
      stderr: /no terminal to ask on: add --yes/,
    });
    t.match(await runShared([...args, '--dry-run'], env), {
      code: 0,
      stdout: '3 match (3 failed).',
    });
    for (const [keys, code, words] of [
      [['n', 'enter'], 1, 'Nothing was queued.'],
      [['enter'], 1, 'Nothing was queued.'],
      [['\u0004'], 1, 'Nothing was queued.'],
      [['ctrl-c'], 130, 'billing: Interrupted: nothing was done.'],
    ] as const) {
      const asked = startTerminal(t, args, { env });
      await asked.waitFor('Queue 3 again? [y/N]');
      asked.press(...keys);
      t.match(await asked.ended, { code });
      t.match(asked.screen(), words);
      t.notMatch(asked.screen(), /\n\s+at /);
    }
    t.equal(await replays(), 0);

    // Interrupted while it waits for its first batch.
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const held = sql.begin(async (tx) => {
      await tx`lock table replays in share row exclusive mode`;
      await released;
    });
    const cut = start(t, [...args, '--yes', '--json'], { ...env, NODE_OPTIONS: tellsOfSignal });
    await until(
      async () =>
        (
          await sql`select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
        ).length > 0,
    );
    cut.child.kill('SIGINT');
    await cut.says('SIGINT');
    release();
    await held;
    t.match(await cut.ended, {
      code: 130,
      stdout: /"queued":0,"finished":false/,
      stderr:
        /Interrupted after 0\. Run the same command again to continue; nothing is queued twice\./,
    });

    const yes = startTerminal(t, args, { env });
    await yes.waitFor('Queue 3 again? [y/N]');
    t.match(yes.screen(), /was interrupted after 0 of 3: it\s+continues/);
    yes.press('y', 'enter');
    t.match(await yes.ended, { code: 0 });
    t.match(yes.screen(), 'Queued 3.');
    t.equal(await replays(), 3);
  },
);
