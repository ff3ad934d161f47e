// billing deliveries cancel, and billing status --by endpoint.
import t from 'tap';
import { runShared } from '../../fixtures/command.ts';
import { testDatabase } from '../../fixtures/postgres.ts';
import { changeType, queueDeliveries, seedApp } from '../../fixtures/webhooks.ts';

interface Counts {
  matching: number;
  cancelled: number;
  left: number;
}

void t.test(
  'deliveries cancel ends the matching deliveries, except those in flight, and is recorded',
  async (t) => {
    const { sql, url } = await testDatabase(t);
    const env = { DATABASE_URL: url };
    const [tea, letters] = [
      await seedApp(sql, 'https://tea.example/'),
      await seedApp(sql, 'https://letters.example/'),
    ];
    const ofTea = await queueDeliveries(sql, tea, 2500);
    const ofLetters = await queueDeliveries(sql, letters, 3);
    await changeType(sql, ofTea.slice(0, 2), 'payment_failed');
    await sql`update delivery_queue set attempts = 1, due_at = now() + interval '1 hour' where id = ${ofTea[2]!}`;
    await sql`
      update delivery_queue set claim_id = gen_random_uuid(), claimed_until = now() + interval '1 hour'
      where id = ${ofTea[3]!}`;
    const cancel = async (...flags: string[]) => {
      const args = ['deliveries', 'cancel', '--reason', 'a bad batch', '--json', ...flags];
      const outcome = await runShared(args, env);
      t.equal(outcome.code, 0, outcome.stderr);
      return JSON.parse(outcome.stdout) as Counts;
    };
    const pending = async () => (await sql`select 1 from delivery_queue`).length;
    t.same(await cancel('--app', tea.appId, '--dry-run'), {
      matching: 2500,
      cancelled: 0,
      left: 2500,
    });
    t.equal(await pending(), 2503);
    const failed = ['--app', tea.appId, '--type', 'payment_failed', '--yes'];
    t.same(await cancel(...failed), { matching: 2, cancelled: 2, left: 0 });
    t.same(await cancel('--app', tea.appId, '--until', '2020-01-01', '--yes'), {
      matching: 0,
      cancelled: 0,
      left: 0,
    });
    const all = await runShared(
      ['deliveries', 'cancel', '--webhook', tea.endpointId, '--reason', 'r', '--yes'],
      env,
    );
    t.match(all, {
      code: 0,
      stdout: /^2498 pending deliveries match\.\nCancelled 2497\. 1 are being sent at the moment/,
    });
    t.same(
      (await sql<{ id: string }[]>`select id from delivery_queue order by id`).map(({ id }) => id),
      [ofTea[3], ...ofLetters].sort(),
    );
    t.match(
      await sql`select status, count(*)::int as count, max(attempts) as tries from deliveries group by 1`,
      [{ status: 'cancelled', count: 2499, tries: 1 }],
    );
    const again = ['replay', '--webhook', tea.endpointId, '--status', 'cancelled', '--yes'];
    t.match(await runShared([...again, '--json'], env), { stdout: /"queued":2499/ });
    t.match(await sql`select command, what, reason from admin_actions order by id`, [
      {
        command: 'deliveries cancel',
        what: `2 events of app ${tea.appId}, payment_failed`,
        reason: 'a bad batch',
      },
      { what: `2498 events of webhook ${tea.endpointId}`, reason: 'r' },
      { command: 'replay' },
    ]);
    for (const [args, code, stderr] of [
      [[], 2, /--reason/],
      [['--reason', 'r'], 2, /at least one of --app/],
      [['--reason', 'r', '--app', tea.appId], 2, /without a terminal, add --yes/],
      [['--reason', 'r', '--type', 'no'], 2, /--type must be one of/],
    ] as const)
      t.match(await runShared(['deliveries', 'cancel', ...args], env), { code, stderr });
    t.match(await runShared(['deliveries', '--app', letters.appId, '--limit', '1'], env), {
      code: 0,
      stdout: / pending /,
    });
  },
);

void t.test('status --by endpoint lists the endpoints, the most overdue first', async (t) => {
  const { sql, url } = await testDatabase(t);
  const env = { DATABASE_URL: url, SOLANA_CLUSTER: 'localnet' };
  const status = (...flags: string[]) =>
    runShared(['status', '--by', 'endpoint', '--max-delivery-delay', '100000', ...flags], env);
  t.match(await status(), { stdout: /No webhook endpoint has unfinished deliveries or fails/ });
  const [tea, letters] = [
    await seedApp(sql, 'https://tea.example/'),
    await seedApp(sql, 'https://letters.example/'),
  ];
  await queueDeliveries(sql, tea, 3);
  const [late] = await queueDeliveries(sql, letters, 2);
  await sql`update delivery_queue set due_at = now() + interval '1 hour', attempts = 2 where endpoint_id = ${tea.endpointId}`;
  await sql`update delivery_queue set due_at = now() - interval '3 hours' where id = ${late!}`;
  const json = await status('--json');
  t.match(JSON.parse(json.stdout), {
    deliveries: { due: 2, endpoints: 1 },
    endpoints: [
      { endpointId: letters.endpointId, pending: 2, retrying: 0, due: 2 },
      { endpointId: tea.endpointId, pending: 3, retrying: 3, due: 0, lateSeconds: 0 },
    ],
  });
  t.match((await status()).stdout, /2 +0 +2 +3 h +- +- +- +https:\/\/letters\.example\//);
  const failing = await seedApp(sql, 'https://failing.example/');
  await sql`insert into endpoint_health (endpoint_id, last_failure_at, failing_since, last_error)
    values (${failing.endpointId}, now(), now() - interval '3 days', 'timeout')`;
  await sql`update webhook_endpoints set disabled_at = now(), disabled_reason = 'failing' where id = ${failing.endpointId}`;
  t.match((await status()).stdout, /0 +0 +0 +- +\S+Z +timeout +\S+Z +https:\/\/failing\.example\//);
  const plain = await runShared(['status', '--json'], env);
  t.notOk('endpoints' in (JSON.parse(plain.stdout) as object));
});
