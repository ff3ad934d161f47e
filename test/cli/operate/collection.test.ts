import { hostname } from 'node:os';
import t from 'tap';
import { runShared } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertMerchant, insertPlan } from '../../fixtures/rows.ts';

void t.test(
  'collection hold and resume are printed, recorded, and shown by billing status',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const merchant = await insertMerchant(sql);
    const planId = await insertPlan(sql, merchant);
    const env = { DATABASE_URL: url, SOLANA_CLUSTER: 'localnet' };
    const run = (...args: string[]) => runShared(['collection', ...args], env);

    const held = await run('hold', '--reason', 'a test');
    t.match(held, {
      code: 0,
      stdout: /^Collection of all plans is held: no new payment is signed/,
    });
    t.match(held.stdout, /collection of all plans is held: a test/);
    const again = await run('hold', '--reason', 'a better reason');
    t.match(again, { code: 0, stdout: /was held already/ });
    const status = await runShared(['status', '--json'], env);
    t.equal(status.code, 1);
    t.match(JSON.parse(status.stdout), {
      problems: [
        'no serve has run yet, and there is work for it',
        'collection of all plans is held: a better reason',
      ],
      collection: { holds: [{ planId: null, reason: 'a better reason' }], waitsForHeight: null },
    });
    const json = await run('hold', '--merchant', merchant.wallet, '--reason', 'fraud', '--json');
    t.match(JSON.parse(json.stdout), {
      changed: true,
      holds: [{ merchantWallet: null }, { merchantWallet: merchant.wallet, reason: 'fraud' }],
    });
    t.match(await run('hold', '--plan', planId, '--reason', 'r'), { code: 0 });
    t.match(await run('resume', '--reason', 'done'), {
      code: 0,
      stdout: /^Collection of all plans continues/,
    });
    t.match(await run('resume', '--reason', 'done'), {
      code: 0,
      stdout: /^Collection of all plans was not held/,
    });
    await run('resume', '--plan', planId, '--reason', 'done');
    await run('resume', '--merchant', merchant.id, '--reason', 'done');
    const well = await runShared(['status', '--json'], env);
    t.match(JSON.parse(well.stdout), { problems: [], collection: { holds: [] } });
    const actions = await sql<{ who: string; host: string }[]>`
    select who, host, command, what, reason from admin_actions order by id`;
    t.match(actions, [
      { command: 'collection hold', what: null, reason: 'a test' },
      { reason: 'a better reason' },
      { what: `merchant ${merchant.wallet}`, reason: 'fraud' },
      { what: `plan ${planId}` },
      { command: 'collection resume', what: null, reason: 'done' },
      { what: `plan ${planId}` },
      { what: `merchant ${merchant.wallet}` },
    ]);
    t.ok(actions.every(({ who, host }) => who !== '' && host === hostname()));
  },
);

void t.test('wrong usage of `billing collection` prints what is wrong', async (t) => {
  const { sql, url } = await testDatabase(t);
  const { wallet } = await insertMerchant(sql);
  const env = { DATABASE_URL: url, SOLANA_CLUSTER: 'localnet' };
  const plan = '019aa3f2-0000-7000-8000-000000000000';
  for (const [args, code, stderr] of [
    [['hold'], 2, /--reason/],
    [['hold', '--reason', ' '], 2, /1 to 500 characters/],
    [['hold', '--reason', 'x'.repeat(501)], 2, /1 to 500 characters/],
    [['hold', '--merchant', wallet, '--plan', plan, '--reason', 'r'], 2, /not both/],
    [['hold', '--plan', plan, '--reason', 'r'], 1, /There is no plan/],
    [['hold', '--plan', 'p', '--reason', 'r'], 2, /not an id/],
    [['resume', '--merchant', 'm', '--reason', 'r'], 2, /neither the id of a merchant/],
  ] as const)
    t.match(await runShared(['collection', ...args], env), { code, stderr }, args.join(' '));
});
