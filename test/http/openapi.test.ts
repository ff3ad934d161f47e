// Issue 4: the OpenAPI document and the pages that show it.
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import t from 'tap';
import { testApi } from '../fixtures/http.ts';

interface Operation {
  operationId: string;
  summary: string;
  tags: string[];
  security?: Record<string, string[]>[];
  responses: Record<string, { description: string; content?: Record<string, { schema: object; example?: unknown }> }>;
}
interface Document {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
}

// service.md, Endpoints, and decisions.md, HTTP API.
const promised = `
  POST /auth/nonce, POST /auth/verify, GET /merchant/api-keys, POST /merchant/api-keys, DELETE /merchant/api-keys/{keyId}, GET /merchant/profile,
  PATCH /merchant/profile, GET /merchant/apps, POST /merchant/apps, GET /merchant/apps/{appId}, PATCH /merchant/apps/{appId},
  GET /merchant/apps/{appId}/plans, POST /merchant/apps/{appId}/plans, GET /merchant/apps/{appId}/plans/{planId},
  PATCH /merchant/apps/{appId}/plans/{planId}, POST /merchant/apps/{appId}/plans/{planId}/transaction, GET /merchant/apps/{appId}/subscriptions,
  GET /merchant/apps/{appId}/subscriptions/{subscriptionId}, POST /merchant/apps/{appId}/subscriptions/{subscriptionId}/cancel,
  GET /merchant/apps/{appId}/transactions, GET /merchant/apps/{appId}/transactions/export, GET /merchant/apps/{appId}/analytics,
  GET /merchant/apps/{appId}/webhooks, POST /merchant/apps/{appId}/webhooks, GET /merchant/apps/{appId}/webhooks/{webhookId},
  DELETE /merchant/apps/{appId}/webhooks/{webhookId}, POST /merchant/apps/{appId}/webhooks/{webhookId}/test,
  GET /merchant/apps/{appId}/webhooks/{webhookId}/deliveries, GET /merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId},
  POST /merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId}/replay, GET /merchant/apps/{appId}/events,
  GET /merchant/apps/{appId}/events/{eventId}, GET /merchant/apps/{appId}/events/next, POST /merchant/apps/{appId}/events/sample, GET /subscriber/plans/{planId}, POST /subscriber/plans/{planId}/subscribe,
  POST /subscriber/subscriptions, GET /subscriber/subscriptions, GET /subscriber/subscriptions/{subscriptionId},
  GET /subscriber/subscriptions/{subscriptionId}/transactions, POST /subscriber/subscriptions/{subscriptionId}/cancel,
  POST /subscriber/subscriptions/{subscriptionId}/resume, POST /subscriber/subscriptions/{subscriptionId}/close, GET /healthz, GET /readyz`
  .split(',')
  .map((line) => line.trim());

void t.test('the document has every promised route and no other', async (t) => {
  const api = await testApi(t);
  const document = JSON.parse((await api.call('GET', '/openapi.json')).text) as Document;
  t.equal(document.openapi, '3.1.0');
  const documented = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  t.same(documented.sort(), [...promised].sort());
});

void t.test('an OpenAPI linter finds no error', async (t) => {
  const api = await testApi(t, { publicUrl: 'https://billing.example' });
  const source = (await api.call('GET', '/openapi.json')).text;
  // Health has nothing to refuse.
  const config = await createConfig({ extends: ['recommended'], rules: { 'operation-4xx-response': 'off' } });
  const problems = await lintFromString({ source, absoluteRef: 'openapi.json', config });
  t.same(
    problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} at ${location[0]?.pointer ?? ''}`),
    [],
  );
});

void t.test('each operation has an id of its own, a summary, refusals that say what they mean, and who may call it', async (t) => {
  const api = await testApi(t);
  const document = JSON.parse((await api.call('GET', '/openapi.json')).text) as Document;
  const operations = Object.entries(document.paths).flatMap(([path, found]) =>
    Object.values(found).map((operation) => ({ path, operation })),
  );
  t.equal(new Set(operations.map(({ operation }) => operation.operationId)).size, operations.length);
  for (const { path, operation } of operations) {
    t.ok(operation.summary.length > 5 && operation.tags.length === 1, operation.operationId);
    t.notOk(JSON.stringify(operation.responses).includes('Default Response'), operation.operationId);
    const closed = path.startsWith('/merchant') || path.startsWith('/subscriber');
    if (closed)
      t.match(operation.responses['401']?.content?.['application/json']?.example, { success: false, data: null, error: { code: String } });
    if (closed) t.ok('401' in operation.responses && '403' in operation.responses && '429' in operation.responses, operation.operationId);
    else t.same(operation.security, [], operation.operationId);
    if (path.includes('{')) t.ok('404' in operation.responses, operation.operationId);
    const walletOnly = path.startsWith('/subscriber') || path.startsWith('/merchant/api-keys');
    if (walletOnly) t.same(operation.security, [{ walletJwt: [] }], operation.operationId);
  }
});

void t.test('/docs shows it and loads nothing from another host', async (t) => {
  const api = await testApi(t);
  const page = await api.call('GET', '/docs/');
  t.match(page, { status: 200, headers: { 'content-type': /text\/html/, 'content-security-policy': /default-src 'self'/ } });
  const initializer = await api.call('GET', '/docs/static/swagger-initializer.js');
  t.equal(initializer.status, 200);
  t.match(initializer.text, /"validatorUrl":null/);
  const code = initializer.text.replace(/^\s*\/\/.*$/gm, '');
  for (const text of [page.text, code]) t.notMatch(text, /https?:\/\/(?!billing\.test)/);
  const loaded = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, url]) => url!);
  t.ok(loaded.length >= 5);
  for (const url of loaded) {
    t.ok(!/^(https?:)?\/\//.test(url), url);
    t.equal((await api.call('GET', new URL(url, 'http://billing.test/docs/').pathname)).status, 200, url);
  }
});

void t.test('what is below /docs leads to no route of the API, however it is spelled', async (t) => {
  const api = await testApi(t);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = api.app.server.address() as AddressInfo;
  for (const url of [
    '/docs/../merchant/profile',
    '/docs/%2e%2e/merchant/profile',
    '/docs/..%2fmerchant/profile',
    '/docs/static/../../healthz',
  ]) {
    // A path as it is: fetch and URL would resolve its dots.
    const [answer] = (await once(request({ host: '127.0.0.1', port, path: url, agent: false }).end(), 'response')) as [IncomingMessage];
    t.match(
      { status: answer.statusCode, answer: JSON.parse(await text(answer)) as unknown },
      { status: 404, answer: { error: { code: 'NOT_FOUND' } } },
      url,
    );
  }
});
