// examples/saas against the sandbox of "billing dev": installed from its own lock file,
// type-checked, and used by a customer with a wallet.
import { execFile, spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { cp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseEnv, promisify } from 'node:util';
import t from 'tap';
import { freePorts } from '../../src/local/sandbox/ports.ts';
import { run, start } from '../fixtures/command.ts';
import { installPackages } from '../fixtures/packages.ts';
import { testRefusals } from '../fixtures/refusals.ts';
import { until } from '../fixtures/webhooks.ts';

const example = fileURLToPath(new URL('../../examples/saas/', import.meta.url));

void t.test('the example SaaS sells a plan and receives the payment event', async (t) => {
  const saas = await installPackages('examples/saas');
  const sources = (await readdir(example)).filter((name) => /\.ts$|^tsconfig/.test(name));
  for (const name of sources) await cp(join(example, name), join(saas, name));
  await promisify(execFile)('npm', ['run', 'types'], { cwd: saas });

  const [port] = await freePorts(1);
  const own = `http://127.0.0.1:${String(port)}`;
  const dir = join(t.testdir(), 'dev');
  const dev = start(t, ['dev', '--dir', dir, '--forward-to', `${own}/webhooks`]);
  await dev.line('ctrl-C ends it');
  const env = parseEnv(await readFile(join(dir, 'env'), 'utf8')) as Record<string, string>;
  await fetch(`${env.BILLING_API_URL ?? ''}/merchant/apps/${env.APP ?? ''}`, {
    method: 'PATCH',
    headers: {
      authorization: `Bearer ${env.BILLING_API_KEY ?? ''}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ returnOrigins: [own] }),
  });
  const command = [process.execPath, '--import', 'tsx', 'server.ts'];
  await testRefusals(t, { dir: saas, command, env });
  const server = spawn(command[0]!, command.slice(1), {
    cwd: saas,
    env: { PATH: process.env.PATH, ...env, PORT: String(port), SAAS_URL: own },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => server.kill('SIGKILL'));
  const lines: string[] = [];
  createInterface({ input: server.stdout }).on('line', (line) => lines.push(line));
  await until(() => lines.length > 0 || server.exitCode !== null);
  t.same(lines, [`listening on ${String(port)}`]);

  const ask = async (method: string, path: string, body?: Record<string, string>) => {
    const response = await fetch(`${own}${path}`, {
      method,
      redirect: 'manual',
      headers: { cookie: 'customer=ada', origin: own },
      ...(body !== undefined && { body: new URLSearchParams(body) }),
    });
    const { status, headers } = response;
    return { status, location: headers.get('location') ?? '', text: await response.text() };
  };
  t.match(await ask('POST', '/sign-in', { customer: 'ada' }), { status: 303, location: '/' });
  t.match(await ask('GET', '/reports'), { status: 402, text: /no_subscription/ });
  const { status, location } = await ask('POST', '/subscribe');
  t.equal(status, 303);
  const [, session = ''] = /\/checkout\/([0-9a-f-]{36})$/.exec(location) ?? [];
  const wallet = ['wallet', 'subscribe', env.WALLET ?? '', env.PLAN ?? '', '--amount', '10'];
  const inSession = [...wallet, '--session', session];
  t.match(await run(t, inSession, { BILLING_API_URL: env.BILLING_API_URL ?? '' }), { code: 0 });

  await until(async () => (await ask('GET', '/reports')).status === 200);
  await until(async () => (await ask('GET', '/')).text.includes('payment_success'));
  t.match(await ask('POST', '/cancel'), { status: 303, location: '/' });
  await until(async () => (await ask('GET', '/')).text.includes('cancel_requested'));
  t.match((await ask('GET', '/')).text, /You have access until/, 'until the paid period is over');

  const body = JSON.stringify({ id: 'x', type: 'payment_success', data: { externalId: 'ada' } });
  const forged = async (secret: string, age: number) => {
    const time = String(Math.floor(Date.now() / 1000) - age);
    const hash = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex');
    const headers = { 'x-service-timestamp': time, 'x-service-signature': `sha256=${hash}` };
    return (await fetch(`${own}/webhooks`, { method: 'POST', body, headers })).status;
  };
  t.equal(await forged('whsec_another', 0), 401, 'another secret');
  t.equal(await forged(env.WEBHOOK_SECRET ?? '', 400), 401, 'too old');
  t.equal(await forged(env.WEBHOOK_SECRET ?? '', 0), 204);
  dev.child.kill('SIGINT');
  t.match(await dev.ended, { code: 0 });
});
