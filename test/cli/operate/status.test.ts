// billing status as an operator and a monitor run it.
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { generateKeypair } from '../../../src/chain/keypair.ts';
import { recordStop, writeDaemon } from '../../../src/db/operating/daemons.ts';
import type { Sql } from '../../../src/db/postgres/connect.ts';
import { runShared } from '../../fixtures/command.ts';
import { startTestChain } from '../../fixtures/localnet.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { startReceiver } from '../../fixtures/receiver.ts';
import {
  insertEvent,
  insertMerchant,
  insertPayment,
  insertPlan,
  insertSubscription,
} from '../../fixtures/rows.ts';
import { finishDeliveries } from '../../fixtures/webhooks.ts';

void t.test(
  'status without a problem exits with code 0; it names each exceeded limit and exits with code 1',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const chain = await startTestChain(t);
    const keeper = generateKeypair().address;
    chain.fund(keeper, { lamports: 1_500_000_000n });
    chain.mineBlocks();
    const env = {
      DATABASE_URL: url,
      SOLANA_RPC_URL: chain.rpcUrl,
      SOLANA_CLUSTER: 'localnet',
      KEEPER_ADDRESS: keeper,
    };
    const whole = { ...env, ENCRYPTION_KEY: 'an encryption key of 32 bytes ...' };
    const well = await runShared(['status'], whole);
    t.equal(well.code, 0, well.stderr);
    t.match(well.stdout, /^billing development, \S+Z: OK$/m);
    t.match(well.stdout, `${keeper}, 1.5 SOL`);
    t.ok(well.stdout.split('\n').length <= 24);
    t.match(JSON.parse((await runShared(['status', '--json'], whole)).stdout), {
      ok: true,
      state: 'ok',
      problems: [],
      unchecked: {},
      payments: { due: 0 },
      keeper: { sol: 1.5 },
    });

    const merchant = await insertMerchant(sql);
    await sql`insert into webhook_endpoints (app_id, url, secret) values (${merchant.appId}, 'http://127.0.0.1:1/', '')`;
    const planId = await insertPlan(sql, merchant);
    const due = new Date(Date.now() - 3_600_000);
    const subscriptionId = await insertSubscription(
      sql,
      { appId: merchant.appId, planId },
      { nextPaymentDue: due, dueAt: due },
    );
    await insertEvent(sql, subscriptionId);
    await sql`update delivery_queue set due_at = now() - interval '10 minutes'`;
    await sql`
      insert into daemons (id, name, host, pid, release, schema_version) values
        (gen_random_uuid(), 'keeper', 'a', 1, '0.1.0', 24), (gen_random_uuid(), 'keeper', 'b', 1, '0.1.0', 24),
        (gen_random_uuid(), 'serve', 'a', 2, '0.2.0', 25), (gen_random_uuid(), 'dispatch', 'a', 3, '0.1.0', 24)`;
    await staysAlive(sql);
    const late = await runShared(['status', '--min-sol', '2'], env);
    t.equal(late.code, 1);
    t.match(late.stdout, /3 PAST THEIR LIMITS/);
    t.match(late.stdout, /! a payment has been due for \d+ min; the limit is 15 min/);
    t.match(late.stdout, /! a delivery has been due for \d+ min; the limit is 5 min/);
    t.match(late.stdout, `! the keeper has 1.5 SOL; the limit is 2: send some to ${keeper}`);
    t.match(
      late.stdout,
      /Releases \(schema\) +2 keeper 0\.1\.0 \(24\), dispatch 0\.1\.0 \(24\), serve 0\.2\.0 \(25\)$/m,
    );
    t.ok(late.stdout.split('\n').length <= 24);
    const lenient = [
      'status',
      '--json',
      '--max-payment-delay',
      '7200',
      '--max-delivery-delay',
      '7200',
    ];
    t.match(await runShared(lenient, env), {
      code: 0,
      stdout: /"release":"0.2.0","schemaVersion":25/,
    });
    await finishDeliveries(sql, 'failed', { attempts: 6 });
    const limited = (most: string) => runShared([...lenient, '--max-failed', most], env);
    t.match(await limited('1'), { code: 0, stdout: /"ok":true/ });
    t.match(await limited('0'), {
      code: 1,
      stdout: /1 deliveries were given up in the last two days; the limit is 0/,
    });

    const other = await startReceiver(t);
    const chains = await runShared([...lenient, '--min-sol', '0', '--max-failed', '1'], {
      ...env,
      SOLANA_RPC_URL: `${other.url},${chain.rpcUrl}`,
    });
    t.equal(chains.code, 1, 'one endpoint that is down is not hidden behind one that is up');
    t.equal((JSON.parse(chains.stdout) as { problems: string[] }).problems.length, 1);
  },
);

/** Heartbeats of the future: the rows count as running for as long as the test takes. */
const staysAlive = (sql: Sql) => sql`update daemons set seen_at = now() + interval '1 hour'`;

void t.test(
  'status reports a stopped daemon as a problem if it has work or if --require names it',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const problems = async (...flags: string[]) => {
      const { code, stdout } = await runShared(['status', '--json', ...flags], {
        DATABASE_URL: url,
      });
      const found = (JSON.parse(stdout) as { problems: string[] }).problems;
      t.equal(code, found.length === 0 ? 0 : 1);
      return found;
    };
    t.same(await problems(), [], 'an empty installation has no work');
    const all = 'serve,keeper,dispatch';
    t.same(await problems('--require', `${all},chain`), [
      'no serve has run yet',
      'no keeper has run yet',
      'no dispatch has run yet',
      'keeper is not checked: KEEPER_ADDRESS is not set',
      'chain is not checked: SOLANA_RPC_URL is not set',
    ]);
    const merchant = await insertMerchant(sql);
    await sql`insert into webhook_endpoints (app_id, url, secret) values (${merchant.appId}, 'http://127.0.0.1:1/', '')`;
    const planId = await insertPlan(sql, merchant);
    const subscriptionId = await insertSubscription(sql, { appId: merchant.appId, planId });
    await insertEvent(sql, subscriptionId);
    const waits = ['--max-payment-delay', '7200', '--max-delivery-delay', '7200'];
    t.same(
      await problems(...waits),
      ['serve', 'keeper', 'dispatch'].map(
        (kind) => `no ${kind} has run yet, and there is work for it`,
      ),
    );
    const daemon = (name: string, id = randomUUID()) => {
      const of = { name, host: 'a', pid: 1, release: '0.1.0', schemaVersion: 7, trouble: null };
      return { id, write: () => writeDaemon(sql, { ...of, id }) };
    };
    const first = daemon('keeper');
    const [serve, keeper, dispatch] = ['serve', 'keeper', 'dispatch'].map((name) => daemon(name));
    for (const one of [first, serve, keeper, dispatch]) await one?.write();
    await staysAlive(sql);
    await recordStop(sql, first.id);
    t.same(await problems(...waits), [], 'another keeper runs');
    for (const one of [serve, keeper, dispatch]) await recordStop(sql, one?.id ?? '');
    t.equal((await sql`select from daemons`).length, 3, 'the last one of each kind is remembered');
    const stopped = ['serve', 'keeper', 'dispatch'].map(
      (kind) => new RegExp(`^no ${kind} runs: the last one stopped \\d+ s ago, and there is work`),
    );
    t.match(await problems(...waits), stopped);
    await sql`update subscriptions set status = 'cancelled', ended_at = now(), cancelled_at = now(),
      cancel_requested_at = now(), cancel_requested_by = 'merchant', next_payment_due = null`;
    t.match(await problems(...waits), [stopped[0], stopped[2]], 'a keeper has no work any more');
    await sql`update daemons set stopped_at = null, seen_at = now() - interval '3 days'`;
    t.match(await problems(...waits), [
      /^no serve has written to Postgres for 3 days$/,
      /^no keeper has/,
      /^no dispatch has/,
    ]);
  },
);

void t.test(
  'status without Postgres shows the chain and the keeper’s SOL; with a wrong configuration it fails',
  async (t) => {
    const chain = await startTestChain(t);
    const keeper = generateKeypair().address;
    chain.fund(keeper, { lamports: 1_500_000_000n });
    chain.mineBlocks();
    const gone = {
      DATABASE_URL: 'postgres://billing:hunter2@127.0.0.1:1/ledger',
      SOLANA_RPC_URL: chain.rpcUrl,
      SOLANA_CLUSTER: 'localnet',
      KEEPER_ADDRESS: keeper,
    };
    const told = await runShared(['status', '--json'], gone);
    // On a busy machine a line says after a second what it waits for.
    t.match(told, { code: 1, stderr: /^(billing: asking Postgres and the chain: \d+ s\n)*$/ });
    t.match(JSON.parse(told.stdout), {
      ok: false,
      problems: [/^Postgres at 127\.0\.0\.1:1, database "ledger" cannot be used/],
      at: String,
      payments: null,
      chain: { endpoints: [{ fault: null }] },
      keeper: { sol: 1.5 },
    });
    const shown = await runShared(['status'], gone);
    t.match(shown.stdout, /! Postgres at 127\.0\.0\.1:1/);
    t.match(shown.stdout, /1\.5 SOL/);
    t.notMatch(told.stdout + told.stderr, 'hunter2');
    t.match(await runShared(['status', '--json'], {}), {
      code: 2,
      stdout: '',
      stderr: /DATABASE_URL is required/,
    });
  },
);

void t.test(
  'status --nagios prints one line and uses the exit codes of a Nagios plugin',
  async (t) => {
    const { url } = await testDatabase(t);
    const chain = await startTestChain(t);
    const keeper = generateKeypair().address;
    chain.fund(keeper, { lamports: 1_500_000_000n });
    chain.mineBlocks(3);
    const env = {
      DATABASE_URL: url,
      ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
      SOLANA_RPC_URL: chain.rpcUrl,
      SOLANA_CLUSTER: 'localnet',
      KEEPER_ADDRESS: keeper,
    };
    const plugin = (given: Record<string, string>, ...flags: string[]) =>
      runShared(['status', '--nagios', ...flags], given);
    t.match(await plugin(env), { code: 0, stdout: /^BILLING OK - [^\n]*$/ });
    t.match(await plugin(env, '--min-sol', '2'), {
      code: 1,
      stdout: /^BILLING WARNING - the keeper has 1\.5 SOL[^\n]*$/,
    });
    t.match(await plugin({ DATABASE_URL: url }), {
      code: 3,
      stdout: /^BILLING UNKNOWN - chain not checked: SOLANA_RPC_URL is not set; [^\n]*$/,
    });
    t.match(await plugin({ ...env, DATABASE_URL: 'postgres://billing@127.0.0.1:1/ledger' }), {
      code: 2,
      stdout: /^BILLING CRITICAL - Postgres at 127\.0\.0\.1:1[^\n]*$/,
    });
    t.match(await plugin({}), {
      code: 2,
      stdout: /^BILLING CRITICAL - The configuration is invalid: DATABASE_URL is required[^\n]*$/,
      stderr: /^$/,
    });
    t.match(await plugin({ DATABASE_URL: url, LOG_LEVEL: 'loud', BILLING_ENV: 'a|b' }), {
      code: 2,
      stdout: /^BILLING CRITICAL - (?=[^\n]*LOG_LEVEL must)(?=[^\n]*BILLING_ENV must)[^\n|]*$/,
      stderr: /^$/,
    });
  },
);

void t.test('status reports an RPC endpoint far behind the others as a problem', async (t) => {
  const { url } = await testDatabase(t);
  const chain = await startTestChain(t, { lagPort: 0, blockMs: 0 });
  const env = {
    DATABASE_URL: url,
    SOLANA_RPC_URL: `${chain.rpcUrl},${chain.lagUrl ?? ''}`,
    SOLANA_CLUSTER: 'localnet',
  };
  chain.mineBlocks(300);
  await chain.rpc('localnet_setFault', { kind: 'lag', slots: 150 });
  t.match(await runShared(['status', '--json'], env), { code: 0 }, 'some slots are no problem');
  await chain.rpc('localnet_setFault', { kind: 'lag', slots: 160 });
  const told = await runShared(['status', '--json'], env);
  t.equal(told.code, 1);
  t.match(JSON.parse(told.stdout), {
    problems: [/^RPC .+ is \d+ slots behind; the limit is 150$/],
  });
});

void t.test(
  'status shows parts that it cannot check as "unchecked", which --require turns into problems',
  async (t) => {
    const { url } = await testDatabase(t);
    const env = { DATABASE_URL: url };
    const shown = await runShared(['status'], env);
    t.match(shown, { code: 0, stdout: /: OK, NOT CHECKED: chain, keeper, secrets$/m });
    t.match(shown.stdout, /Secrets +not checked: ENCRYPTION_KEY is not set/);
    const told = await runShared(['status', '--json'], env);
    t.match(JSON.parse(told.stdout), {
      ok: true,
      state: 'unchecked',
      unchecked: {
        chain: 'SOLANA_RPC_URL is not set',
        keeper: 'KEEPER_ADDRESS is not set',
        secrets: 'ENCRYPTION_KEY is not set',
      },
    });
    const demanded = await runShared(['status', '--json', '--require', 'chain,keeper'], env);
    t.equal(demanded.code, 1);
    t.match(JSON.parse(demanded.stdout), {
      ok: false,
      state: 'past_limit',
      problems: [
        'no keeper has run yet',
        'chain is not checked: SOLANA_RPC_URL is not set',
        'keeper is not checked: KEEPER_ADDRESS is not set',
      ],
    });
    const keeper = generateKeypair().address;
    const dead = { ...env, SOLANA_RPC_URL: 'http://127.0.0.1:1', KEEPER_ADDRESS: keeper };
    t.match(
      JSON.parse((await runShared(['status', '--json', '--require', 'keeper'], dead)).stdout),
      {
        state: 'past_limit',
        unchecked: { keeper: 'its SOL is unknown: no RPC endpoint answers' },
      },
    );
    t.match(await runShared(['status', '--require', 'chain,sun'], env), {
      code: 2,
      stderr: /--require.*It must be one of serve, keeper, dispatch, chain, secrets\./,
    });
  },
);

void t.test(
  'status lists the wallets with the most payments that failed on chain in the last day, with the merchant',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const env = { DATABASE_URL: url };
    const none = await runShared(['status'], env);
    t.notMatch(none.stdout, /failed on chain/);
    const { appId, wallet: merchantWallet } = await insertMerchant(sql);
    const planId = await insertPlan(sql, { appId, wallet: merchantWallet });
    const fail = async (subscriptionId: string, count: number, more = {}) => {
      const failed = { failureReason: 'insufficient_funds', txSignature: 'a', ...more };
      for (let times = 0; times < count; times += 1)
        await insertPayment(sql, subscriptionId, new Date().toISOString(), failed);
    };
    const [a, b, c] = ['a', 'b', 'c'].map((name) => `wallet ${name}`);
    const subscribed = (subscriberWallet: string) =>
      insertSubscription(sql, { appId, planId }, { subscriberWallet });
    await fail(await subscribed(a!), 1);
    const twice = await subscribed(b!);
    await fail(twice, 2);
    // Not on chain, and long ago.
    await fail(twice, 1, { txSignature: null });
    const [{ id }] = await sql<
      [{ id: string }]
    >`select first_id_at(now() - interval '25 hours') as id`;
    await fail(await subscribed(c!), 1, { id });
    const told = JSON.parse((await runShared(['status', '--json'], env)).stdout) as {
      payments: { failedOnChain: unknown };
    };
    t.same(told.payments.failedOnChain, [
      { subscriberWallet: b, merchantWallet, failures: 2 },
      { subscriberWallet: a, merchantWallet, failures: 1 },
    ]);
    const shown = await runShared(['status'], env);
    t.match(shown.stdout, /failed on chain +most by wallet b: 2 in the last day/);
  },
);
