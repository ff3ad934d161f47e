// Every command that changes something is recorded, and `billing actions` lists the records.
import { hostname, userInfo } from 'node:os';
import t from 'tap';
import { newId } from '../../../src/db/postgres/ids.ts';
import { secretBox } from '../../../src/domain/accounts/secrets.ts';
import { runShared } from '../../fixtures/command.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { startTestChain } from '../../fixtures/localnet.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import {
  insertEvent,
  insertMerchant,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';
import { finishDeliveries } from '../../fixtures/webhooks.ts';

const OLD_KEY = 'an encryption key of 32 bytes ...';

interface Action {
  command: string;
  what: string | null;
  reason: string | null;
  who: string;
  host: string;
}

void t.test(
  'each command that changes data writes one action record, a command without an effect writes none',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const chain = await startTestChain(t);
    const merchant = await insertMerchant(sql);
    const { appId, wallet } = merchant;
    const endpointId = await newId(sql);
    const secret = secretBox([OLD_KEY]).seal('whsec_1', endpointId);
    await sql`insert into webhook_endpoints ${sql({ id: endpointId, appId, url: 'http://127.0.0.1:1/', secret })}`;
    const planId = await insertPlan(sql, merchant);
    const subscriptionId = await insertSubscription(sql, { appId, planId });
    await insertEvent(sql, subscriptionId);
    await finishDeliveries(sql, 'failed', undefined);
    const env = {
      DATABASE_URL: url,
      SOLANA_RPC_URL: chain.rpcUrl,
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: chain.mint,
      KEEPER_ADDRESS: randomAddress(),
      PLATFORM_TREASURY: randomAddress(),
      ENCRYPTION_KEY: `a new encryption key of 32 bytes,${OLD_KEY}`,
    };
    const run = async (...args: string[]) => {
      const outcome = await runShared(args, env);
      t.equal(outcome.code, 0, `${args.join(' ')}\n${outcome.stderr}`);
      return outcome.stdout;
    };
    const recorded = () =>
      sql<Action[]>`select command, what, reason, who, host from admin_actions order by id`;
    const why = ['--reason', 'ticket 7'];
    const { id: keyId } = JSON.parse(await run('keys', 'create', wallet, '--json', ...why)) as {
      id: string;
    };
    await run('keys', 'revoke', keyId, ...why);
    await run('keys', 'reseal');
    await run('keys', 'reseal');
    await run('merchants', 'set-tier', wallet, 'pro', ...why);
    await run('merchants', 'set-tier', wallet, 'pro', ...why);
    await run('merchants', 'set-fee', wallet, '25', ...why);
    await run('merchants', 'set-fee', wallet, '25', ...why);
    await run('merchants', 'set-sponsoring', wallet, '250000000', ...why);
    await run('merchants', 'set-sponsoring', wallet, '250000000', ...why);
    await run('merchants', 'set-sponsoring', wallet, 'default', ...why);
    await run('configure', '--yes', ...why);
    await run('configure', '--yes', ...why);
    await run('replay', '--app', appId, '--status', 'failed', '--dry-run', ...why);
    await run('replay', '--app', appId, '--status', 'failed', '--yes', ...why);
    await run('reconcile');
    await run('reconcile', '--repair', '--since', '2026-01-01', '--until', '2026-02-01', ...why);
    await run('migrate');
    await sql`update subscriptions set status = 'expired', ended_at = now()`;
    await run('merchants', 'erase', wallet, '--yes', ...why);
    const actions = await recorded();
    t.same(
      actions.map(({ command, what, reason }) => [command, what, reason]),
      [
        ['keys create', `key ${keyId} of merchant ${wallet}`, 'ticket 7'],
        ['keys revoke', `key ${keyId} of merchant ${wallet}`, 'ticket 7'],
        ['keys reseal', '1 webhook secrets', null],
        ['merchants set-tier', `merchant ${wallet}: free to pro`, 'ticket 7'],
        ['merchants set-fee', `merchant ${wallet}: 1% (default) to 0.25%`, 'ticket 7'],
        ['merchants set-sponsoring', `merchant ${wallet}: default to 0.25 SOL`, 'ticket 7'],
        ['merchants set-sponsoring', `merchant ${wallet}: 0.25 SOL to default`, 'ticket 7'],
        ['configure', 'first configuration', 'ticket 7'],
        ['replay', `1 events of app ${appId}, failed`, 'ticket 7'],
        [
          'reconcile --repair',
          'payments from 2026-01-01T00:00:00.000Z to 2026-02-01T00:00:00.000Z',
          'ticket 7',
        ],
        ['merchants erase', `merchant ${wallet}`, 'ticket 7'],
      ],
    );
    for (const { who, host } of actions) t.same([who, host], [userInfo().username, hostname()]);

    const list = async (...args: string[]) =>
      (await run('actions', '--json', ...args))
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (JSON.parse(line) as Action).command);
    t.same(await list(), actions.map(({ command }) => command).toReversed(), 'newest first');
    t.same(await list('--command', 'keys c'), ['keys create']);
    t.same(await list('--what', keyId, '--since', '1h'), ['keys revoke', 'keys create']);
    t.same(await list('--who', 'nobody else'), []);
    t.match(await run('actions'), /^AT +WHO +HOST +COMMAND +WHAT +REASON\n/);
    t.match(await run('actions', '--who', 'nobody else'), 'No action matches.');
  },
);

void t.test('actions record the user behind sudo, also for a migration', async (t) => {
  const { sql, url } = await testDatabase(t, { empty: true });
  const env = { DATABASE_URL: url, SUDO_USER: 'ada' };
  t.equal((await runShared(['migrate'], env)).code, 0);
  t.match(await sql<Action[]>`select * from admin_actions`, [
    { command: 'migrate', what: /^0001_accounts\.sql, 0002/, who: 'ada', host: hostname() },
  ]);
  const refused = await runShared(['merchants', 'set-fee', 'm', '1', '--reason', ' '], env);
  t.match(refused, { code: 2, stderr: /--reason must be a text of 1 to 500 characters/ });
});
