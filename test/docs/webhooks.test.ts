// The receivers of docs/webhooks.md, each a process of its own, get real deliveries, and forged ones.
import { spawn, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { sampleTypes } from '../../src/domain/samples.ts';
import { appendEvents } from '../../src/domain/events.ts';
import { blockOf, blocksOf } from '../fixtures/pages.ts';
import { startReceiver } from '../fixtures/receiver.ts';
import { insertPlan, insertSubscription } from '../fixtures/rows.ts';
import { startServe } from '../fixtures/serve.ts';
import { installed } from '../fixtures/tools.ts';
import { until } from '../fixtures/webhooks.ts';

const receivers: Record<string, { file: string; command: string[] }> = {
  TypeScript: { file: 'receiver.ts', command: [process.execPath, '--import=tsx', 'receiver.ts'] },
  'TypeScript with the package': {
    file: 'with-the-package.ts',
    command: [process.execPath, '--import=tsx', 'with-the-package.ts'],
  },
  Python: { file: 'receiver.py', command: ['python3', 'receiver.py'] },
  Go: { file: 'receiver.go', command: ['go', 'run', 'receiver.go'] },
};

const clientPackage = fileURLToPath(new URL('../../dist/client-package', import.meta.url));
const served = await startServe(t);
const dispatch = served.daemon('dispatch');
await dispatch.line('dispatch is running');

/** A receiver as a process, with its output. */
async function startOne(
  t: Test,
  { file, command }: { file: string; command: string[] },
  env: Record<string, string>,
) {
  const dir = t.testdir({
    [file]: await blockOf('webhooks.md', file),
    node_modules: { 'billing-client': t.fixture('symlink', clientPackage) },
  });
  const [program = '', ...args] = command;
  const child = spawn(program, args, {
    cwd: dir,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, ...env },
    detached: true,
  });
  // "go run" has a child of its own.
  t.teardown(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'));
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  await until(() => lines.length > 0 || child.exitCode !== null, 60_000);
  return {
    lines,
    url: `http://127.0.0.1:${/^listening on (\d+)$/.exec(lines[0] ?? '')?.[1] ?? '0'}`,
  };
}

for (const [language, receiver] of Object.entries(receivers)) {
  void t.test(`the receiver in ${language}`, async (t) => {
    // Not every machine has Go; Node is here, and Python has to be.
    if (language === 'Go' && (await installed(t, 'go')) === undefined) return;
    const { sql } = served;
    const merchant = await served.merchant();
    // The receiver wants the secret before its port is known.
    const placeholder = await startReceiver(t);
    const webhooks = `/merchant/apps/${merchant.appId}/webhooks`;
    const endpoint = await served.call<{ id: string; secret: string }>('POST', webhooks, {
      token: merchant.key,
      body: { url: placeholder.url, extraEvents: ['renewal_upcoming'] },
    });
    const running = await startOne(t, receiver, { WEBHOOK_SECRET: endpoint.secret, PORT: '0' });
    await sql`update webhook_endpoints set url = ${running.url} where id = ${endpoint.id}`;

    const planId = await insertPlan(sql, merchant, { name: 'Kaffee für Zürich ☕' });
    const subscriptionId = await insertSubscription(
      sql,
      { appId: merchant.appId, planId },
      { externalId: 'customer-1' },
    );
    for (const type of ['subscription_created', 'payment_success', 'cancel_requested'] as const)
      await sql.begin((tx) => appendEvents(tx, [{ subscriptionId, type }]));
    for (const issue of ['insufficient_balance', null])
      await sql.begin((tx) =>
        appendEvents(tx, [
          { subscriptionId, type: 'renewal_upcoming', extra: { canPay: issue === null, issue } },
        ]),
      );
    await until(() => running.lines.length === 7);
    const events = await sql<
      { id: string; type: string; body: string }[]
    >`select id, type, body from events where app_id = ${merchant.appId}`;
    t.same(
      running.lines.slice(1).sort(),
      [
        ...events.map(({ id, type }) => `${type} ${id}`),
        'remind customer-1 insufficient_balance',
      ].sort(),
    );
    const deliveries = () =>
      sql<
        { id: string; status: string }[]
      >`select id, status from all_deliveries where endpoint_id = ${endpoint.id}`;
    await until(async () => (await deliveries()).every(({ status }) => status === 'delivered'));

    const [first] = await deliveries();
    await served.call('POST', `${webhooks}/${endpoint.id}/deliveries/${first!.id}/replay`, {
      token: merchant.key,
    });
    await until(
      async () =>
        (await deliveries()).length === 6 &&
        (await deliveries()).every(({ status }) => status === 'delivered'),
    );
    t.equal(running.lines.length, 7, 'an event that comes again is taken once');

    const { body } = events[0]!;
    const now = Math.floor(Date.now() / 1000);
    const post = async (text: string, timestamp: string, signature?: string) => {
      const hmac = createHmac('sha256', endpoint.secret)
        .update(`${timestamp}.${text}`)
        .digest('hex');
      const headers = {
        'X-Service-Timestamp': timestamp,
        'X-Service-Signature': signature ?? `sha256=${hmac}`,
      };
      return (await fetch(running.url, { method: 'POST', body: text, headers })).status;
    };
    t.equal(await post(body, String(now)), 204, 'as the service signs');
    const good = createHmac('sha256', endpoint.secret).update(`${now}.${body}`).digest('hex');
    t.equal(await post(`${body} `, String(now), `sha256=${good}`), 401, 'another body');
    t.equal(await post(body, String(now + 1), `sha256=${good}`), 401, 'another time');
    t.equal(await post(body, String(now), good), 401, 'no prefix');
    t.equal(await post(body, String(now), `sha256=${'0'.repeat(64)}`), 401, 'another signature');
    t.equal(await post(body, String(now), 'sha256=\u00e9'), 401, 'no hex at all');
    t.equal(await post(body, String(now), ''), 401, 'none');
    t.equal(await post(body, String(now - 310)), 401, 'too old');
    t.equal(await post(body, String(now + 310)), 401, 'too new');
    t.equal(await post(body, 'now'), 401, 'no time');
    t.equal(running.lines.length, 7);
  });
}

void t.test(
  'the page names every event; "billing listen" and "billing trigger" as it shows them',
  async (t) => {
    const blocks = await blocksOf('webhooks.md');
    const text = await readFile(new URL('../../docs/webhooks.md', import.meta.url), 'utf8');
    for (const type of sampleTypes) if (type !== 'ping') t.ok(text.includes(`| \`${type}\``), type);

    const merchant = await served.merchant();
    const receiver = await startReceiver(t);
    const dir = t.testdir();
    const billing = join(dir, 'billing');
    await writeFile(
      billing,
      `#!/bin/sh\nexec '${process.execPath}' '${fileURLToPath(new URL('../../bin/billing.js', import.meta.url))}' "$@"\n`,
    );
    await chmod(billing, 0o755);
    const env = {
      PATH: `${dir}:${process.env.PATH ?? ''}`,
      BILLING_API_KEY: merchant.key,
      BILLING_API_URL: served.url,
    };
    const code = (name: string) => blocks.find((block) => block.name === name)!.code;
    const local = code('listen').replace('http://localhost:4000/', receiver.url);
    t.not(local, code('listen'));
    const listening = spawn('sh', ['-c', `exec ${local}`], {
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    t.teardown(() => listening.kill('SIGKILL'));
    const lines: string[] = [];
    createInterface({ input: listening.stdout }).on('line', (line) => lines.push(line));
    await until(() => lines.some((line) => line.startsWith('whsec_')));
    t.match(spawnSync('sh', ['-c', code('trigger')], { env, encoding: 'utf8' }), {
      status: 0,
      stdout: /^Sample payment_success/,
    });
    await receiver.got(1);
    t.match(receiver.requests[0]?.body.toString(), '"type":"payment_success"');
  },
);
