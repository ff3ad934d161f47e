// billing merchants suspend|resume|approve and billing wallets.
import { hostname } from 'node:os';
import t from 'tap';
import { ensureMerchant } from '../../../src/db/accounts/merchants.ts';
import { runShared } from '../../fixtures/command.ts';
import { randomAddress } from '../../fixtures/http.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertMerchant } from '../../fixtures/rows.ts';

void t.test('suspensions are printed, listed and recorded', async (t) => {
  const { sql, url } = await testDatabase(t);
  const { wallet, id } = await insertMerchant(sql);
  const subscriber = randomAddress();
  const env = { DATABASE_URL: url };
  const run = (...args: string[]) => runShared(args, env);
  t.match(await run('merchants', 'suspend', wallet, '--reason', 'phishing'), {
    code: 0,
    stdout: /^Merchant \w+ is suspended: it can only read/,
  });
  t.match(await run('merchants', 'suspend', id, '--reason', 'stolen cards'), {
    code: 0,
    stdout: /was suspended already; it has the new reason now/,
  });
  t.match(await run('merchants', 'list'), { stdout: / suspended / });
  t.match(await run('merchants', 'show', wallet), { stdout: /^State +suspended: stolen cards$/m });
  t.match(await run('wallets', 'list'), { stdout: 'No wallet is suspended.' });
  t.match(await run('wallets', 'suspend', subscriber, '--reason', 'chargebacks'), {
    code: 0,
    stdout: new RegExp(`^Wallet ${subscriber} is suspended`),
  });
  const listed = await run('wallets', 'list', '--json');
  t.match(JSON.parse(listed.stdout), { wallet: subscriber, reason: 'chargebacks' });
  t.match(
    JSON.parse((await run('wallets', 'resume', subscriber, '--reason', 'r', '--json')).stdout),
    {
      role: 'subscriber',
      wallet: subscriber,
      changed: true,
    },
  );
  t.match(await run('wallets', 'resume', subscriber, '--reason', 'r'), {
    code: 0,
    stdout: /was not suspended/,
  });
  t.match(await run('merchants', 'approve', wallet), { code: 1, stderr: /merchants resume/ });
  t.match(await run('merchants', 'resume', wallet, '--reason', 'cleared'), {
    code: 0,
    stdout: /is no longer suspended/,
  });
  const waiting = randomAddress();
  await ensureMerchant(sql, waiting, { approval: true });
  t.match(await run('merchants', 'list'), { stdout: new RegExp(`${waiting} .* waiting `) });
  t.match(await run('merchants', 'approve', waiting), { stdout: /is approved\.$/ });
  t.match(await run('merchants', 'approve', waiting), { stdout: /does not wait for approval/ });
  t.match(await run('merchants', 'approve', subscriber, '--reason', 'a contract'), {
    stdout: /it has never signed in/,
  });
  const approved = await sql<{ wallet: string }[]>`
    select wallet from merchants where approved_at is not null order by id`;
  t.same(
    approved.map((one) => one.wallet),
    [waiting, subscriber],
    'not one that never waited',
  );
  const actions = await sql<{ who: string; host: string }[]>`
    select who, host, command, what, reason from admin_actions order by id`;
  t.match(actions, [
    { command: 'merchants suspend', what: `merchant ${wallet}`, reason: 'phishing' },
    { command: 'merchants suspend', reason: 'stolen cards' },
    { command: 'wallets suspend', what: `subscriber ${subscriber}`, reason: 'chargebacks' },
    { command: 'wallets resume', reason: 'r' },
    { command: 'merchants resume', what: `merchant ${wallet}`, reason: 'cleared' },
    { command: 'merchants approve', what: `merchant ${waiting}`, reason: null },
    { command: 'merchants approve', what: `merchant ${subscriber}`, reason: 'a contract' },
  ]);
  t.equal(actions.length, 7, 'what changed nothing is not recorded');
  t.ok(actions.every(({ who, host }) => who !== '' && host === hostname()));
});

void t.test('wrong usage of suspend prints one line that names the mistake', async (t) => {
  const { sql, url } = await testDatabase(t);
  const { wallet } = await insertMerchant(sql);
  for (const [args, code, stderr] of [
    [['merchants', 'suspend', wallet], 2, /--reason/],
    [['merchants', 'suspend', wallet, '--reason', ''], 2, /1 to 500 characters/],
    [['merchants', 'suspend', randomAddress(), '--reason', 'r'], 1, /There is no merchant/],
    [['merchants', 'approve', 'm'], 2, /is not a wallet/],
    [['wallets', 'suspend', 'w', '--reason', 'r'], 2, /is not a wallet/],
  ] as const)
    t.match(await runShared([...args], { DATABASE_URL: url }), { code, stderr }, args.join(' '));
});
