// billing listen and billing trigger as a merchant's developer runs them: against a `billing
// serve`, with a receiver of webhooks on this machine.
import { createHmac } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { Webhook } from 'standardwebhooks';
import t from 'tap';
import { createNotifier, DELIVERIES_QUEUED } from '../../../src/db/postgres/notify.ts';
import { appendEvents } from '../../../src/domain/outbox/events.ts';
import { sampleTypes } from '../../../src/domain/outbox/samples.ts';
import { runShared, start } from '../../fixtures/command.ts';
import { testApi } from '../../fixtures/http.ts';
import { isLong } from '../../fixtures/long.ts';
import { startProxy } from '../../fixtures/proxy.ts';
import { startReceiver, status, type Received } from '../../fixtures/receiver.ts';
import { insertPlan, insertSubscription } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';
import { startTerminal } from '../../fixtures/terminal.ts';
import { until } from '../../fixtures/webhooks.ts';

const served = await startServe(t);

/** A merchant with an app, a plan and a subscription to which things happen. */
async function developer() {
  const { sql, url } = served;
  const merchant = await served.merchant();
  const planId = await insertPlan(sql, merchant);
  const subscriptionId = await insertSubscription(sql, { appId: merchant.appId, planId });
  const env = { BILLING_API_KEY: merchant.key, BILLING_API_URL: url };
  const notifier = createNotifier(sql, DELIVERIES_QUEUED);
  const happen = async (count = 1) => {
    for (let made = 0; made < count; made += 1)
      notifier.notify(
        await sql.begin((tx) => appendEvents(tx, [{ subscriptionId, type: 'payment_success' }])),
      );
  };
  const bodies = async () =>
    (
      await sql<
        { body: string }[]
      >`select body from events where app_id = ${merchant.appId} order by sequence`
    ).map(({ body }) => body);
  const endpoint = (target: string) =>
    served.call<{ secret: string }>('POST', `/merchant/apps/${merchant.appId}/webhooks`, {
      token: merchant.key,
      body: { url: target },
    });
  return { merchant, env, happen, bodies, endpoint };
}

const bodyOf = ({ body }: Received) => body.toString();

void t.test(
  'listen forwards events at once, byte for byte and signed with its secret; ctrl-C ends it with 0',
  async (t) => {
    const { env, merchant, happen, bodies } = await developer();
    const receiver = await startReceiver(t);
    const listening = start(t, ['listen', '--forward-to', receiver.url], env);
    const secret = await listening.line(/^whsec_/);
    await happen(3);
    await receiver.got(3);
    t.same(receiver.requests.map(bodyOf), await bodies());
    for (const { headers, body } of receiver.requests) {
      const timestamp = String(headers['x-service-timestamp']);
      t.ok(Math.abs(Number(timestamp) - Date.now() / 1000) < 300);
      t.equal(
        headers['x-service-signature'],
        `sha256=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`,
      );
      t.match(new Webhook(secret).verify(body.toString(), headers as Record<string, string>), {
        type: 'payment_success',
      });
      t.equal(headers['content-type'], 'application/json');
    }
    await listening.line(/payment_success .*200 in \d+ ms/);
    listening.child.kill('SIGINT');
    const { code, stdout, stderr } = await listening.ended;
    t.equal(code, 0);
    t.equal(stderr.trim(), 'Stopped: 3 forwarded, 0 failed.');
    t.equal(stdout.split('whsec_').length, 2, 'the secret is printed once');
    t.notOk(`${stdout}${stderr}`.includes(merchant.key));

    const again = start(
      t,
      ['listen', '--forward-to', receiver.url.replace('http://', ''), '--json'],
      env,
    );
    const ready = JSON.parse(await again.line('"ready":true')) as { secret: string };
    t.equal(ready.secret, secret, 'the secret stays the same for a key and an app');
    await happen();
    t.match(JSON.parse(await again.line('"eventId"')), {
      type: 'payment_success',
      sample: false,
      status: 200,
      error: null,
    });
    again.child.kill('SIGHUP');
    t.match(await again.ended, { code: 0, stderr: 'Stopped: 1 forwarded, 0 failed.\n' });
  },
);

void t.test(
  'listen takes a port of this machine as the target, with or without a path',
  async (t) => {
    const { env, happen } = await developer();
    const receiver = await startReceiver(t);
    const { port } = new URL(receiver.url);
    const listening = start(t, ['listen', '--forward-to', port, '--json'], env);
    t.match(JSON.parse(await listening.line('"ready":true')), {
      forwardTo: `http://localhost:${port}/`,
    });
    await happen();
    await receiver.got(1);
    const hook = start(t, ['listen', '--forward-to', `:${port}/hook`, '--json'], env);
    t.match(JSON.parse(await hook.line('"ready":true')), {
      forwardTo: `http://localhost:${port}/hook`,
    });
    t.match(await runShared(['listen', '--forward-to', '70000'], env), {
      code: 2,
      stderr: /--forward-to must be an absolute http:/,
    });
    t.match(await runShared(['listen', '--forward-to', 'http://3000/hook'], env), {
      code: 2,
      stderr: /names the host 3000\. Is http:\/\/localhost:3000 meant\?/,
    });
  },
);

void t.test('listen forwards each event once and in order after a lost connection', async (t) => {
  const { env, happen, bodies } = await developer();
  const receiver = await startReceiver(t);
  const wire = await startProxy(t, served.port);
  const listening = start(t, ['listen', '--forward-to', receiver.url, '--json'], {
    ...env,
    BILLING_API_URL: `http://127.0.0.1:${wire.port}`,
  });
  await listening.line('"ready":true');
  await happen(2);
  await receiver.got(2);
  wire.cut();
  await happen(3);
  const tries = wire.connections;
  await until(() => wire.connections > tries + 1);
  wire.restore();
  await receiver.got(5);
  // The next answer breaks off in its middle, again and again.
  wire.cutAfter(700);
  const before = wire.connections;
  await happen(4);
  await until(() => wire.connections > before + 2);
  wire.restore();
  await receiver.got(9);
  await happen();
  await receiver.got(10);
  t.same(receiver.requests.map(bodyOf), await bodies());
  listening.child.kill('SIGTERM');
  const { code, stderr } = await listening.ended;
  t.equal(code, 0);
  t.match(
    stderr,
    /does not answer.*no event is lost meanwhile\.[^]*The API is reachable again; no event was lost\./,
  );
  t.notMatch(stderr, /\n\s+at /);
});

void t.test('after a restart of serve, listen forwards each event exactly once', async (t) => {
  const { env, happen, bodies } = await developer();
  const receiver = await startReceiver(t);
  const listening = start(t, ['listen', '--forward-to', receiver.url], env);
  await listening.line(/^whsec_/);
  await happen(2);
  await receiver.got(2);
  await served.stop('SIGKILL');
  await happen(3);
  await served.restart();
  await receiver.got(5);
  await happen();
  await receiver.got(6);
  t.same(receiver.requests.map(bodyOf), await bodies());
  listening.child.kill('SIGINT');
  t.match(await listening.ended, {
    code: 0,
    stderr: /does not answer[^]*reachable again; no event was lost\.[^]*6 forwarded, 0 failed/,
  });
});

void t.test(
  'trigger sends a marked sample of each type to endpoint and listeners, and changes no record',
  async (t) => {
    const { env, merchant, endpoint: createEndpoint } = await developer();
    const { sql } = served;
    const [endpoint, local] = [await startReceiver(t), await startReceiver(t)];
    const { secret } = await createEndpoint(endpoint.url);
    const listening = start(t, ['listen', '--forward-to', local.url], env);
    await listening.line(/^whsec_/);
    const state = async () =>
      inspect(
        [
          await sql`select * from subscriptions`,
          await sql`select * from subscription_work`,
          await sql`select * from events`,
          await sql`select * from payments`,
          await sql`select * from all_deliveries`,
        ],
        { depth: null },
      );
    const before = await state();
    const some = ['payment_success', 'cancel_requested', 'plan_blocked', 'ping'] as const;
    const types = isLong ? sampleTypes : some;
    const outcomes = await Promise.all(types.map((type) => runShared(['trigger', type], env)));
    for (const [index, type] of types.entries()) {
      t.equal(outcomes[index]?.code, 0, type);
      t.match(
        outcomes[index]?.stdout,
        new RegExp(
          `^Sample ${type} \\([0-9a-f-]{36}\\) of Coffee: the endpoint answered 200 in \\d+ ms; 1 listener gets it\\.$`,
        ),
      );
    }
    await local.got(types.length);
    t.same(local.requests.map(bodyOf).sort(), endpoint.requests.map(bodyOf).sort());
    t.equal(await state(), before);
    for (const type of types) {
      const { headers, body: sent } = endpoint.requests.find((request) =>
        bodyOf(request).includes(`"type":"${type}"`),
      )!;
      new Webhook(secret).verify(sent.toString(), headers as Record<string, string>);
      const event = JSON.parse(sent.toString()) as {
        id: string;
        type: string;
        data: Record<string, unknown>;
      };
      t.match(event, {
        type,
        data: {
          appId: merchant.appId,
          test: true,
          // Only events of a subscription have a place in an order.
          ...(['credit_changed', 'ping', 'plan_blocked'].includes(type) ? {} : { sequence: 0 }),
        },
      });
      t.equal(headers['webhook-id'], event.id);
      if (type === 'payment_success')
        t.match(event.data, {
          amountGross: '10000000',
          platformFee: '100000',
          amountNet: '9900000',
          txSignature: String,
          nextPaymentDue: String,
        });
      if (type.startsWith('cancel_'))
        t.notOk('amountGross' in event.data || 'txSignature' in event.data, type);
    }
    await listening.line(/payment_success \(sample\)/);
    const help = await runShared(['trigger', '--help']);
    for (const type of sampleTypes)
      t.match(help.stdout.replace(/\s+/g, ' '), type, 'the help names every type');
  },
);

void t.test(
  'listen filters by --events, prints --bodies and asks for a secret after 401; trigger --data sets fields',
  async (t) => {
    const { env } = await developer();
    const receiver = await startReceiver(t, status(401));
    const flags = ['--forward-to', receiver.url, '--events', 'payment_failed,ping', '--bodies'];
    const listening = start(t, ['listen', ...flags], env);
    await listening.line(/^whsec_/);
    const trigger = (...args: string[]) => runShared(['trigger', ...args], env);
    await trigger('payment_success');
    const data = '{"externalId": "customer-7", "test": false, "sequence": 5}';
    t.match(await trigger('payment_failed', '--data', data), { code: 0 });
    await trigger('ping');
    await receiver.got(2);
    const types = receiver.requests.map((each) => JSON.parse(bodyOf(each)) as object);
    t.match(types, [
      { type: 'payment_failed', data: { externalId: 'customer-7', test: true, sequence: 0 } },
      { type: 'ping' },
    ]);
    await listening.line(/^ +"externalId": "customer-7",$/);
    await listening.line(/ping \(sample\).*401/);
    listening.child.kill('SIGINT');
    const { stderr } = await listening.ended;
    t.equal(stderr.match(/answered 401: is its WEBHOOK_SECRET the one above\?/g)?.length, 1);

    t.match(await trigger('payment_sucess'), { code: 2, stderr: /Did you mean payment_success\?/ });
    t.match(await trigger('ping', '--data', '[1]'), {
      code: 2,
      stderr: /--data must be a JSON object/,
    });
    t.match(await runShared(['listen', '--forward-to', receiver.url, '--events', 'pings'], env), {
      code: 2,
      stderr: /--events.*"pings" is not an event type\. Did you mean ping\?/,
    });
  },
);

void t.test(
  'trigger exits with 1 for a failing or missing endpoint, and sends no data of the caller in production',
  async (t) => {
    const { env, endpoint: createEndpoint } = await developer();
    t.match(await runShared(['trigger', 'ping'], env), {
      code: 0,
      stdout: /the app has no webhook endpoint/,
      stderr: /billing listen/,
    });
    const endpoint = await startReceiver(t, status(500));
    await createEndpoint(endpoint.url);
    t.match(await runShared(['trigger', 'ping', '--json'], env), {
      code: 1,
      stdout: /"status":500/,
    });
    const production = await testApi(t, { environment: 'production' });
    const live = await production.merchant();
    const sample = (body: object) =>
      production.call<{ body: string }>('POST', `/merchant/apps/${live.appId}/events/sample`, {
        token: live.key,
        body,
      });
    t.match(await sample({ type: 'payment_success', data: { externalId: 'customer-7' } }), {
      status: 403,
      body: { error: { code: 'FORBIDDEN', message: /"data" can only be given in development/ } },
    });
    const sent = await sample({ type: 'payment_success' });
    t.equal(sent.status, 200);
    t.match(JSON.parse(sent.body.data.body), {
      type: 'payment_success',
      data: { test: true, externalId: 'sample-customer' },
    });
  },
);

void t.test(
  'listen reports an event as failed when the local server is unreachable, and forwards the next one',
  async (t) => {
    const { env, happen } = await developer();
    const receiver = await startReceiver(t, (_response, _received, request) =>
      request.socket.destroy(),
    );
    const listening = start(t, ['listen', '--forward-to', receiver.url], env);
    await listening.line(/^whsec_/);
    await happen();
    await listening.line(/payment_success .*no answer \(reset\)/);
    receiver.answer = (response) => response.end('ok');
    await happen();
    await listening.line(/payment_success .*200 in/);
    listening.child.kill('SIGINT');
    t.match(await listening.ended, { code: 0, stderr: /1 forwarded, 1 failed/ });
  },
);

void t.test('a revoked key ends listen with a clear line and exit code 1', async (t) => {
  const { env, merchant, happen } = await developer();
  const receiver = await startReceiver(t);
  const listening = start(t, ['listen', '--forward-to', receiver.url], env);
  await listening.line(/^whsec_/);
  await happen();
  await receiver.got(1);
  const [{ id: keyId }] = await served.call<[{ id: string }]>('GET', '/merchant/api-keys', {
    token: merchant.token,
  });
  await served.call('DELETE', `/merchant/api-keys/${keyId}`, { token: merchant.token });
  // A request that was let in before waits for an event, and is answered; the next one is
  // refused.
  await happen();
  t.match(await listening.ended, {
    code: 1,
    stderr: 'billing: The API key is unknown or has been revoked.\n',
  });
});

void t.test('listen ends when its output pipe is closed', async (t) => {
  const { env, happen } = await developer();
  const receiver = await startReceiver(t);
  const listening = start(t, ['listen', '--forward-to', receiver.url], env);
  await listening.line(/^whsec_/);
  listening.child.stdout?.destroy();
  await happen();
  const { code, stderr } = await listening.ended;
  t.equal(code, 0);
  t.notMatch(stderr, /\n\s+at |EPIPE/);
});

void t.test(
  'wrong usage of listen and trigger prints one clear line without stack trace or API key',
  async (t) => {
    const { env, merchant } = await developer();
    const listen = ['listen', '--forward-to', 'localhost:3000'];
    const keyless = { BILLING_API_URL: env.BILLING_API_URL };
    const unknown = '01a1fd7a-183d-7a6e-8756-a417420d830b';
    const missing = join(t.testdir(), 'missing');
    const cases: [string[], Record<string, string>, number, RegExp][] = [
      [['listen'], env, 2, /required option '--forward-to <url>'/],
      [['listen', '--forward-to', 'ftp://x'], env, 2, /--forward-to must be an absolute/],
      [
        listen,
        keyless,
        2,
        /An API key is needed: log in with "billing login", set BILLING_API_KEY, or name a file/,
      ],
      [
        listen,
        { ...env, BILLING_API_KEY: 'secret' },
        2,
        /The API key is malformed: it should start with sk_test_/,
      ],
      [
        listen,
        { ...env, BILLING_API_KEY: merchant.key.slice(0, 30) },
        2,
        /it has 22 characters after sk_test_ and should have 43 or 44, so [^?.]*\.\n$/,
      ],
      [
        [...listen, '--live'],
        { ...env, BILLING_API_KEY: merchant.key.replace('test', 'live') },
        1,
        /This is a development service: its API keys start with sk_test_\./,
      ],
      [
        listen,
        {
          ...env,
          BILLING_API_KEY: merchant.key.replace(/.$/, (last) => (last === '1' ? '2' : '1')),
        },
        1,
        /unknown or has been revoked/,
      ],
      [
        listen,
        { ...env, BILLING_API_KEY: merchant.key.replace('test', 'live') },
        2,
        /live key.*Add --live/,
      ],
      [
        listen,
        { ...env, BILLING_API_URL: 'http://billing.example' },
        2,
        /billing\.example in clear text: use https/,
      ],
      [
        listen,
        // fetch refuses some ports, such as 1, without an attempt to connect.
        { ...env, BILLING_API_URL: 'http://127.0.0.1:47' },
        1,
        /http:\/\/127\.0\.0\.1:47 does not answer: .*ECONNREFUSED.*BILLING_API_URL/,
      ],
      [
        listen,
        { ...env, BILLING_API_URL: `${env.BILLING_API_URL}/v1/` },
        1,
        /no such route\. http:\S+\/v1 must be the root of the API, .* BILLING_API_URL \(or --api-url\)/,
      ],
      [
        listen,
        { ...env, BILLING_API_URL: env.BILLING_API_URL.replace('http:', 'https:') },
        1,
        /^billing: The server at https:\S+ does not speak TLS: is it http:\/\/ [^\n]*\n$/,
      ],
      [[...listen, '--api-key-file', missing], keyless, 2, /--api-key-file cannot be read/],
      [[...listen, '--app', unknown], env, 1, /There is no such app/],
      [[...listen, '--app', 'x'], env, 2, /"x" is not an id/],
      [
        ['trigger', 'payment'],
        env,
        2,
        /"payment" is not an event type\. The types are subscription_created/,
      ],
      [['trigger'], env, 2, /missing required argument 'type'/],
      [
        ['trigger', 'ping'],
        { ...env, BILLING_API_URL: 'http://127.0.0.1:1' },
        1,
        /does not answer/,
      ],
    ];
    const outcomes = await Promise.all(cases.map(([args, given]) => runShared(args, given)));
    for (const [index, [args, , code, message]] of cases.entries()) {
      const outcome = outcomes[index]!;
      t.match(outcome, { code, stderr: message }, `${args.join(' ')} ${String(message)}`);
      t.notMatch(outcome.stderr, /\n\s+at /);
      t.notOk(`${outcome.stdout}${outcome.stderr}`.includes(merchant.key));
    }
    const receiver = await startReceiver(t);
    t.match(await runShared(['trigger', 'ping'], { ...env, BILLING_API_URL: receiver.url }), {
      code: 1,
      stderr: /is not the billing API \(HTTP 200\)/,
    });
    await served.call('POST', '/merchant/apps', { token: merchant.key, body: { name: 'Tea' } });
    t.match(await runShared(listen, env), {
      code: 2,
      stderr: /several apps: name one with --app\.\n {2}[0-9a-f-]{36} {2}Tea\n/,
    });
  },
);

void t.test(
  'the API key is read from a file, or from a hidden prompt on a terminal, where ctrl-C stops without an effect',
  async (t) => {
    const { env, merchant } = await developer();
    const keyless = { BILLING_API_URL: env.BILLING_API_URL };
    const file = join(t.testdir(), 'key');
    await writeFile(file, `${merchant.key}\n`);
    t.match(await runShared(['trigger', 'ping', '--api-key-file', file], keyless), { code: 0 });

    const asked = startTerminal(t, ['trigger', 'ping'], { env: keyless });
    await asked.waitFor('API key:');
    asked.press(merchant.key, 'enter');
    t.match(await asked.ended, { code: 0 });
    t.match(asked.screen(), /Sample ping/);
    t.notOk(asked.written().includes(merchant.key.slice(8, 20)), 'what was typed is not shown');

    const interrupted = startTerminal(t, ['trigger', 'ping'], { env: keyless });
    await interrupted.waitFor('API key:');
    interrupted.press('ctrl-c');
    t.match(await interrupted.ended, { code: 130 });
    t.match(interrupted.screen(), /billing: Interrupted: nothing was done\./);
    t.notMatch(interrupted.screen(), /\n\s+at /);
  },
);
