// The units of deploy/systemd. systemd.tools.ts has systemd's own tools judge them.
import { readdir, readFile } from 'node:fs/promises';
import t from 'tap';
import { describeVariables } from '../../src/config/variables.ts';
import { run } from '../fixtures/command.ts';

const folder = new URL('../../deploy/systemd/', import.meta.url);
const files = await readdir(folder);
const names = files.filter((name) => name.endsWith('.service'));
const units = new Map(
  await Promise.all(
    names.map(async (name) => [name, await readFile(new URL(name, folder), 'utf8')] as const),
  ),
);

/** Its lines without comments: `Key=value`. */
const settings = (text: string) => text.split('\n').filter((line) => /^[A-Z]\w+=/.test(line));
const valuesOf = (text: string, key: string) =>
  settings(text)
    .filter((line) => line.startsWith(`${key}=`))
    .map((line) => line.slice(key.length + 1));

void t.test('each daemon has a systemd unit, and the migration unit is enabled separately', (t) => {
  for (const daemon of ['serve', 'keeper', 'dispatch']) {
    const text = units.get(`billing-${daemon}.service`) ?? '';
    t.match(valuesOf(text, 'ExecStart').join(), new RegExp(`bin/billing\\.js ${daemon}$`));
    t.match(valuesOf(text, 'After').join(), /billing-migrate\.service/);
    t.notMatch(valuesOf(text, 'Wants').join(), /billing-migrate/, 'it is wanted on one machine');
    for (const line of [
      'Type=notify',
      'NotifyAccess=all',
      'Restart=on-failure',
      'WatchdogSec=30',
      'StartLimitIntervalSec=0',
    ])
      t.ok(settings(text).includes(line), `${daemon}: ${line}`);
    // Work in hand has 10 s (src/daemon/run.ts).
    t.ok(Number(valuesOf(text, 'TimeoutStopSec')[0]) > 11);
  }
  t.match(units.get('billing-migrate.service'), /^Type=oneshot$/m);
  t.match(units.get('billing-migrate.service'), /^WantedBy=multi-user\.target$/m);
  t.end();
});

void t.test('a systemd timer runs reconcile daily and catches up on missed runs', async (t) => {
  t.same(
    files.filter((name) => name.endsWith('.timer')),
    ['billing-reconcile.timer'],
  );
  const timer = await readFile(new URL('billing-reconcile.timer', folder), 'utf8');
  for (const line of ['OnCalendar=daily', 'Persistent=yes', 'WantedBy=timers.target'])
    t.ok(settings(timer).includes(line), line);
  const unit = units.get('billing-reconcile.service') ?? '';
  t.match(unit, /^Type=oneshot$/m);
  // Without --repair: its role can only read.
  t.match(valuesOf(unit, 'ExecStart').join(), /bin\/billing\.js reconcile$/);
  t.match(valuesOf(unit, 'LoadCredential').join(), 'credentials/reconcile_database_url');
});

void t.test('every systemd unit has a memory limit and a task limit', (t) => {
  for (const [name, text] of units) {
    t.match(valuesOf(text, 'MemoryMax'), [/^(512M|1G)$/], name);
    t.same(valuesOf(text, 'TasksMax'), ['64'], name);
  }
  t.end();
});

void t.test('every systemd unit has the same hardening options', (t) => {
  const hardening = (text: string) =>
    text.slice(text.indexOf('# The same in every unit'), text.indexOf('\n[Install]')).trim();
  const [first = ''] = [...units.values()].map(hardening);
  for (const line of [
    'DynamicUser=yes',
    'ProtectSystem=strict',
    'NoNewPrivileges=yes',
    'CapabilityBoundingSet=',
  ])
    t.match(first, line);
  for (const [name, text] of units)
    t.equal(hardening(text.includes('\n[Install]') ? text : `${text}\n[Install]`), first, name);
  t.end();
});

void t.test(
  'a unit gets its daemon’s secrets as systemd credentials, never as environment variables',
  (t) => {
    for (const [name, text] of units) {
      const role = /^billing-(\w+)/.exec(name)?.[1];
      const credentials = valuesOf(text, 'LoadCredential').map((value) => value.split(':'));
      const environment = valuesOf(text, 'Environment')
        .map((value) => value.split('='))
        .filter(([variable]) => variable !== 'METRICS_PORT');
      for (const [variable = '', path = ''] of environment) {
        t.ok(
          credentials.some(([id = '']) => path === `%d/${id}`),
          `${name}: ${variable}`,
        );
      }
      for (const [, path = ''] of credentials)
        t.match(path, /^\/etc\/billing\/credentials\//, name);
      t.equal(credentials.length, environment.length, name);
      const needed = describeVariables().filter(
        ({ secret, name, requiredBy }) =>
          (secret === true || name === 'KEEPER_KEYPAIR') &&
          requiredBy?.some((one) => one === (role === 'migrate' ? 'admin' : role)),
      );
      t.same(
        environment.map(([variable = '']) => variable.replace(/_FILE$/, '')).sort(),
        needed.map(({ name }) => name).sort(),
        name,
      );
    }
    t.end();
  },
);

void t.test(
  'each daemon has its own metrics port, used in the Prometheus configuration and the runbook',
  async (t) => {
    const portOf = (unit: string) =>
      valuesOf(units.get(`${unit}.service`) ?? '', 'Environment')
        .find((value) => value.startsWith('METRICS_PORT='))
        ?.slice('METRICS_PORT='.length);
    const ports = ['serve', 'keeper', 'dispatch'].map((daemon) => portOf(`billing-${daemon}`));
    t.same(ports, ['9464', '9465', '9466']);
    t.equal(portOf('billing-serve@'), '1%i');
    t.equal(portOf('billing-dispatch@'), '1910%i');
    const prometheus = await readFile(new URL('../prometheus/prometheus.yaml', folder), 'utf8');
    for (const port of ports) t.match(prometheus, `'127.0.0.1:${port}'`);
    const runbook = await readFile(new URL('../../docs/runbook.md', folder), 'utf8');
    for (const [, port, metrics] of runbook.matchAll(
      /:(946\d)\/metrics \| .*billing_(webhook|due|keeper|merchant|rpc|loop|log)/g,
    ))
      t.equal(port, metrics === 'webhook' ? '9466' : '9465', metrics ?? '');
  },
);

void t.test(
  'the environment file has only known variables, and daemons require the two that it leaves empty',
  async (t) => {
    const text = await readFile(new URL('billing.env', folder), 'utf8');
    const known = new Set(describeVariables().map(({ name }) => name));
    const given = [...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(
      ([, name = '', value = '']) => [name, value] as const,
    );
    for (const [name] of given) t.ok(known.has(name), name);
    const { code, stderr } = await run(t, ['serve'], {
      ...Object.fromEntries(given),
      DATABASE_URL: 'postgres://127.0.0.1:1/x',
      SOLANA_RPC_URL: 'http://127.0.0.1:1',
      JWT_SECRET: 'j'.repeat(32),
      ENCRYPTION_KEY: 'an encryption key of 32 bytes ...',
    });
    t.equal(code, 2);
    t.same([...stderr.matchAll(/- ([A-Z_]+) is required/g)].map(([, name]) => name).sort(), [
      'KEEPER_ADDRESS',
      'PLATFORM_TREASURY',
    ]);
  },
);

void t.test("only the migration unit has the database owner's credentials", (t) => {
  for (const [name, text] of units)
    t.equal(
      valuesOf(text, 'LoadCredential').some((value) => /\/credentials\/database_url$/.test(value)),
      name === 'billing-migrate.service',
      name,
    );
  t.end();
});
