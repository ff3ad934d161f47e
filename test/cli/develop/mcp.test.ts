// billing mcp, driven by the SDK's own client over stdio, against a running serve.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import t, { type Test } from 'tap';
import { runShared } from '../../fixtures/command.ts';
import { insertPlan } from '../../fixtures/rows.ts';
import { startServe } from '../../fixtures/serve.ts';

const program = fileURLToPath(new URL('../../../bin/billing.js', import.meta.url));
const served = await startServe(t);
const merchant = await served.merchant();

/** Starts it with this environment and connects a client. */
async function connect(t: Test, env: Record<string, string>, ...flags: string[]) {
  const client = new Client({ name: 'test', version: '1' });
  const args = [program, 'mcp', ...flags];
  await client.connect(
    new StdioClientTransport({ command: process.execPath, args, env, stderr: 'ignore' }),
  );
  t.teardown(() => client.close());
  const call = async (name: string, given: Record<string, unknown> = {}) => {
    const { content, isError = false } = await client.callTool({ name, arguments: given });
    const [{ text: answer }] = content as [{ text: string }];
    const said = JSON.parse(answer) as Record<string, unknown>;
    t.equal('error' in said, isError);
    t.match(said.about, /not as instructions/);
    return said;
  };
  return { client, call };
}

void t.test('mcp offers the operations that read, with the key of "billing login"', async (t) => {
  const env = { XDG_CONFIG_HOME: t.testdir() };
  const key = { ...env, BILLING_API_KEY: merchant.key, BILLING_API_URL: served.url };
  t.match(await runShared(['login'], key), { code: 0 });
  const { client, call } = await connect(t, env);
  t.match(client.getServerVersion(), { name: 'billing', version: /^\d+\.\d+\.\d+$/ });
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  t.ok(names.includes('listSubscriptions') && names.includes('getAnalytics'), names.join());
  for (const name of ['createApp', 'createRefund', 'listApiKeys', 'listOwnSubscriptions'])
    t.notOk(names.includes(name), name);
  t.notOk(names.includes('exportTransactions'), 'which answers no JSON');
  t.ok(tools.every(({ annotations }) => annotations?.readOnlyHint === true));
  t.match(
    tools.find(({ name }) => name === 'listDeliveries'),
    {
      title: 'List the deliveries of an app',
      description: /^List the deliveries of an app\. Includes deliveries to deleted endpoints/,
      inputSchema: {
        properties: {
          appId: { type: 'string', format: 'uuid' },
          status: { items: { enum: ['pending'] } },
        },
        required: ['appId'],
        additionalProperties: false,
      },
    },
  );
  t.match(await call('listApps', { limit: 1 }), { data: [{ id: merchant.appId, name: 'Coffee' }] });
  t.match(await call('createApp', { body: { name: 'Tea' } }), {
    error: /need "billing mcp --write"/,
  });
  t.match(await call('getApp'), { error: 'getApp needs appId.' });
  t.match(await call('getApp', { appId: merchant.appId, app: 1 }), {
    error: /^getApp has no argument app; it has appId/,
  });
  t.match(await call('getApp', { appId: merchant.appId, constructor: 1 }), {
    error: /^getApp has no argument constructor/,
  });
  t.match(await call('listApps', { limit: 1000 }), {
    error: /^VALIDATION_ERROR: .*\n- limit must be/s,
  });
  t.match(
    await call('getApp', { appId: '../api-keys' }),
    { error: 'NOT_FOUND: There is no such app.' },
    'an argument leads to no other path',
  );
  const other = await served.merchant();
  t.match(await call('getApp', { appId: other.appId }), {
    error: 'FORBIDDEN: This app belongs to another account.',
  });
});

void t.test(
  'mcp --write also offers the operations that write, with one request each',
  async (t) => {
    const env = { BILLING_API_KEY: merchant.key, BILLING_API_URL: served.url };
    const { client, call } = await connect(t, env, '--write');
    const { tools } = await client.listTools();
    const createApp = tools.find(({ name }) => name === 'createApp');
    t.match(createApp, {
      annotations: { readOnlyHint: false },
      inputSchema: {
        properties: { body: { properties: { name: { type: 'string' } } } },
        required: ['body'],
      },
    });
    t.notMatch(JSON.stringify(tools), /\$ref|"format":"name"/);
    const once = { body: { name: 'Tea' }, 'idempotency-key': 'one' };
    const made = await call('createApp', once);
    t.match(made, { data: { name: 'Tea' } });
    t.same(await call('createApp', once), made, 'the idempotency key is sent');
    t.match(await call('createApp', { body: { name: '' } }), { error: /^VALIDATION_ERROR: / });
    const listed = await call('listApps', { limit: 1 });
    t.match(await call('listApps', { limit: 1, cursor: listed.nextCursor }), {
      data: [{ id: merchant.appId }],
    });
    const { id } = made.data as { id: string };
    t.match(await call('updateApp', { appId: id, body: { name: 'Mate' } }), {
      data: { name: 'Mate' },
    });
  },
);

/** Starts it, closes its stdin after `input`, and returns the lines that it answers. */
async function answersTo(t: Test, input: string): Promise<string[]> {
  const env = { BILLING_API_KEY: merchant.key, BILLING_API_URL: served.url };
  const child = spawn(process.execPath, [program, 'mcp'], {
    env,
    stdio: ['pipe', 'pipe', 'ignore'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const [ended, out] = [once(child, 'exit'), text(child.stdout)];
  child.stdin.end(input);
  t.same(await ended, [0, null]);
  return (await out).trim().split('\n');
}

void t.test(
  'mcp answers every call that it has read, even if stdin closes right after the call',
  async (t) => {
    const call = { name: 'listApps', arguments: {} };
    const initialize = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 'test', version: '1' },
    };
    const messages = [
      { id: 1, method: 'initialize', params: initialize },
      { method: 'notifications/initialized' },
      { id: 2, method: 'tools/call', params: call },
      { id: 3, method: 'tools/call', params: call },
    ].map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
    const answers = (await answersTo(t, messages.join(''))).slice(1);
    t.same(answers.map((line) => (JSON.parse(line) as { id: number }).id).sort(), [2, 3]);
    for (const line of answers) t.match(line, merchant.appId);
  },
);

void t.test(
  'mcp answers a line that is not a message, and accepts null for omitted params',
  async (t) => {
    const answers = await answersTo(
      t,
      [
        '{"jsonrpc":',
        '[]',
        '{"id":7}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","params":null}',
        '',
      ].join('\n'),
    );
    t.match(
      answers.map((line) => JSON.parse(line) as object),
      [
        { id: null, error: { code: -32_700 } },
        { id: null, error: { code: -32_700 } },
        { id: 7, error: { code: -32_600 } },
        { id: 1, result: {} },
      ],
    );
  },
);

void t.test('mcp answers each line that violates the message schema with an error', async (t) => {
  const [invalidRequest, invalidParams] = [-32_600, -32_602];
  const lines: [object, object][] = [
    [
      { id: 1, method: 'ping', params: [1] },
      { id: 1, error: { code: invalidParams } },
    ],
    [
      { id: 'two', method: 'ping', params: 'x' },
      { id: 'two', error: { code: invalidParams } },
    ],
    [
      { id: 3, method: 'ping', params: { _meta: 1 } },
      { id: 3, error: { code: invalidParams } },
    ],
    [
      { id: 4, method: 5 },
      { id: 4, error: { code: invalidRequest } },
    ],
    [
      { id: null, method: 'ping' },
      { id: null, error: { code: invalidRequest } },
    ],
    [
      { id: {}, method: 'ping' },
      { id: null, error: { code: invalidRequest } },
    ],
    [
      { id: 1.5, method: 'ping' },
      { id: 1.5, error: { code: invalidRequest } },
    ],
    [
      { id: 5, method: 'ping', more: 1 },
      { id: 5, error: { code: invalidRequest } },
    ],
    [{ id: 6 }, { id: 6, error: { code: invalidRequest } }],
    [
      { id: 7, result: 1 },
      { id: 7, error: { code: invalidRequest } },
    ],
    [{ method: 5 }, { id: null, error: { code: invalidRequest } }],
  ];
  const notification = { method: 'notifications/initialized', params: [1] };
  const last = { id: 8, method: 'ping' };
  const messages = [...lines.map(([message]) => message), notification, last];
  const answers = await answersTo(
    t,
    messages.map((message) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`).join(''),
  );
  t.equal(answers.length, lines.length + 1, 'a notification is never answered');
  const expected = [...lines.map(([, answer]) => answer), { id: 8, result: {} }];
  for (const [n, answer] of expected.entries())
    t.match(JSON.parse(answers[n] ?? 'null'), answer, JSON.stringify(messages[n]));
});

void t.test('mcp returns no secrets to a model and labels texts of users as data', async (t) => {
  const env = { BILLING_API_KEY: merchant.key, BILLING_API_URL: served.url };
  const { call } = await connect(t, env, '--write');
  const { appId } = merchant;
  const body = { url: 'https://shop.example/hook/s3cret?key=s3cret' };
  const made = await call('createWebhook', { appId, body });
  t.match(made, { data: { url: /^withheld: .* https:\/\/shop\.example /, secret: /^withheld/ } });
  const { id: webhookId } = made.data as { id: string };
  const answers = [
    made,
    await call('listWebhooks', { appId }),
    await call('updateWebhook', { appId, webhookId, body: { maxPerSecond: 5 } }),
    await call('getWebhook', { appId, webhookId }),
  ];
  for (const answer of answers) {
    t.match(JSON.stringify(answer), 'https://shop.example ');
    t.notMatch(JSON.stringify(answer), 's3cret');
  }
  const plan = await insertPlan(served.sql, merchant);
  const session = await call('createCheckoutSession', { appId, body: { planId: plan } });
  t.match(session, { data: { url: /\/checkout\/[0-9a-f-]{36}$/ } }, 'which customers open');
});

void t.test('mcp without a key, or with a wrong URL, ends with one line', async (t) => {
  t.match(await runShared(['mcp'], {}), { code: 2, stderr: /An API key is needed/ });
  const wrong = { BILLING_API_KEY: merchant.key, BILLING_API_URL: 'http://127.0.0.1:1' };
  t.match(await runShared(['mcp'], wrong), { code: 1, stderr: /does not answer/ });
});
