// The first daemon records the installation; another that differs refuses to start; `billing
// configure` changes it.
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { connect } from '../../../src/db/postgres/connect.ts';
import { run, runShared } from '../../fixtures/command.ts';
import { daemonEnv, startReady } from '../../fixtures/daemons.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { insertMerchant, insertPlan } from '../../fixtures/rows.ts';

void t.test(
  'serve refuses to start with other settings than the keeper and names both values',
  async (t) => {
    const env = await daemonEnv(t);
    await startReady(t, 'keeper', env);
    const other = generateKeypair().address;
    const refused = await run(t, ['serve'], { ...env, PLATFORM_TREASURY: other });
    t.equal(refused.code, 2);
    t.match(
      refused.stderr,
      `PLATFORM_TREASURY is ${other} here and ${env.PLATFORM_TREASURY ?? ''} in the database`,
    );
    t.match(refused.stderr, /billing configure/);
    const changed = { ...env, PLATFORM_TREASURY: `${env.PLATFORM_TREASURY ?? ''},${other}` };
    t.equal((await run(t, ['serve'], changed)).code, 2);
    t.match(await runShared(['configure', '--yes'], changed), {
      code: 0,
      stdout: /PLATFORM_TREASURY is .* here[^]*Recorded/,
    });
    await startReady(t, 'serve', changed);
  },
);

void t.test(
  'a keeper with another fee than the first daemon refuses to start until it is configured',
  async (t) => {
    const env = await daemonEnv(t);
    const sql = connect(env.DATABASE_URL ?? '', { max: 1, name: 'billing test' });
    t.teardown(() => sql.end({ timeout: 1 }));
    await startReady(t, 'serve', { ...env, PLATFORM_FEE_BPS: '100' });
    const other = { ...env, PLATFORM_FEE_BPS: '250' };
    const refused = await run(t, ['keeper'], other);
    t.equal(refused.code, 2);
    t.match(refused.stderr, 'PLATFORM_FEE_BPS is 250 here and 100 in the database');
    t.match(await runShared(['configure', '--yes'], other), {
      code: 0,
      stdout: /PLATFORM_FEE_BPS is 250 here[^]*carry the new fee[^]*Recorded/,
    });
    await startReady(t, 'keeper', other);
  },
);

void t.test('serve and keeper refuse to start if Postgres could lose commits', async (t) => {
  const env = await daemonEnv(t);
  for (const daemon of ['serve', 'keeper']) {
    const weak = `${env.DATABASE_URL ?? ''}?options=-c%20synchronous_commit%3Doff`;
    const refused = await run(t, [daemon], { ...env, DATABASE_URL: weak });
    t.match(refused, {
      code: 2,
      stderr: /synchronous_commit = off .*Run "billing migrate --roles"/,
    });
  }
});

void t.test(
  'configure explains the effect of a change on plans and asks for confirmation',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const [mint, keeper, treasury] = Array.from({ length: 3 }, () => generateKeypair().address);
    const env = {
      DATABASE_URL: url,
      SOLANA_CLUSTER: 'localnet',
      USDC_MINT: mint ?? '',
      KEEPER_ADDRESS: keeper ?? '',
      PLATFORM_TREASURY: treasury ?? '',
    };
    t.match(await runShared(['configure'], env), { code: 0, stdout: /^Recorded/ });
    t.match(await runShared(['configure'], env), {
      code: 0,
      stdout: /already has this configuration/,
    });
    const merchant = await insertMerchant(sql);
    await insertPlan(sql, merchant);
    const next = { ...env, KEEPER_ADDRESS: generateKeypair().address };
    t.match(await runShared(['configure'], next), {
      code: 2,
      stdout: /1 of 1 plans name none of these keepers/,
      stderr: /Nothing was changed: without a terminal, add --yes/,
    });
    t.match(await runShared(['configure', '--yes'], next), { code: 0 });
    t.match(await sql`select keepers from installation`, [{ keepers: [next.KEEPER_ADDRESS] }]);
  },
);
