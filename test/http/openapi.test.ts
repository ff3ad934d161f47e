// The OpenAPI document and the pages that show it.
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import t from 'tap';
import { cancelRequesters, endReasons, failureReasons } from '../../src/domain/reasons.ts';
import { failureMeanings } from '../../src/webhooks/errors.ts';
import {
  contractOf,
  type Document as ContractDocument,
  type Reference,
  responsesOf,
} from '../fixtures/contract.ts';
import { apiDocument, testApi } from '../fixtures/http.ts';

interface Operation {
  operationId: string;
  summary: string;
  tags: string[];
  security?: Record<string, string[]>[];
  parameters?: { name: string; in: string; description?: string; schema: { format?: string } }[];
  responses: Record<string, Response | Reference>;
}
interface Response {
  description: string;
  headers?: Record<string, object>;
  content?: Record<string, { schema: object; example?: unknown }>;
}
interface Document {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { responses: Record<string, Response> };
}

// docs/contract.md, Endpoints.
const promised = `
  GET /merchant/apps/{appId}/access,
  POST /merchant/apps/{appId}/checkout-sessions, GET /merchant/apps/{appId}/checkout-sessions,
  GET /merchant/apps/{appId}/checkout-sessions/{checkoutSessionId},
  GET /checkout-sessions/{checkoutSessionId},
  POST /checkout/plans/{planId}/offers, POST /checkout/offers/{offerId}/transaction, GET /checkout/offers/{offerId},
  POST /subscriber/offers/{offerId}/transaction, GET /subscriber/offers/{offerId},
  GET /auth/methods, POST /auth/nonce, POST /auth/verify, GET /merchant/api-keys, POST /merchant/api-keys, DELETE /merchant/api-keys/{keyId}, GET /merchant/profile,
  PATCH /merchant/profile, GET /merchant/apps, POST /merchant/apps, GET /merchant/apps/{appId}, PATCH /merchant/apps/{appId},
  POST /merchant/apps/{appId}/logo, DELETE /merchant/apps/{appId}/logo, POST /merchant/apps/{appId}/website/verify,
  GET /merchant/apps/{appId}/plans, POST /merchant/apps/{appId}/plans, GET /merchant/apps/{appId}/plans/{planId},
  PATCH /merchant/apps/{appId}/plans/{planId}, POST /merchant/apps/{appId}/plans/{planId}/transaction,
  POST /merchant/apps/{appId}/plans/{planId}/pullers-transaction, GET /merchant/apps/{appId}/subscriptions,
  GET /merchant/apps/{appId}/subscriptions/{subscriptionId},
  PATCH /merchant/apps/{appId}/subscriptions/{subscriptionId}, POST /merchant/apps/{appId}/subscriptions/{subscriptionId}/cancel,
  POST /merchant/apps/{appId}/subscriptions/{subscriptionId}/pause,
  POST /merchant/apps/{appId}/subscriptions/{subscriptionId}/reinstate, GET /merchant/apps/{appId}/unregistered, POST /merchant/apps/{appId}/subscriptions/{subscriptionId}/unpause,
  POST /merchant/apps/{appId}/transactions/{transactionId}/refunds, GET /merchant/apps/{appId}/transactions/{transactionId}/refunds,
  GET /merchant/apps/{appId}/transactions, GET /merchant/apps/{appId}/transactions/export, GET /merchant/apps/{appId}/analytics,
  GET /merchant/apps/{appId}/webhooks, POST /merchant/apps/{appId}/webhooks, GET /merchant/apps/{appId}/webhooks/{webhookId}, PATCH /merchant/apps/{appId}/webhooks/{webhookId},
  DELETE /merchant/apps/{appId}/webhooks/{webhookId}, POST /merchant/apps/{appId}/webhooks/{webhookId}/test,
  GET /merchant/apps/{appId}/webhooks/{webhookId}/deliveries, GET /merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId},
  POST /merchant/apps/{appId}/webhooks/{webhookId}/deliveries/{deliveryId}/replay, GET /merchant/apps/{appId}/events,
  GET /merchant/apps/{appId}/events/{eventId}, GET /merchant/apps/{appId}/events/next, POST /merchant/apps/{appId}/events/sample, GET /subscriber/plans/{planId}, POST /subscriber/plans/{planId}/subscribe,
  POST /subscriber/subscriptions, GET /subscriber/subscriptions, GET /subscriber/subscriptions/{subscriptionId},
  GET /subscriber/subscriptions/{subscriptionId}/invoices, GET /subscriber/invoices/{invoiceId},
  GET /subscriber/subscriptions/{subscriptionId}/transactions, POST /subscriber/subscriptions/{subscriptionId}/cancel,
  POST /subscriber/subscriptions/{subscriptionId}/resume, POST /subscriber/subscriptions/{subscriptionId}/close,
  POST /subscriber/subscriptions/{subscriptionId}/repair, POST /subscriber/approval/revoke, GET /subscriber/plans/{planId}/standing, POST /subscriber/transactions,
  GET /merchant/apps/{appId}/deliveries, GET /merchant/apps/{appId}/deliveries/{deliveryId}, POST /merchant/apps/{appId}/deliveries/{deliveryId}/replay,
  POST /merchant/apps/{appId}/events/{eventId}/replay, POST /merchant/apps/{appId}/replays, GET /merchant/apps/{appId}/replays/{replayId},
  POST /merchant/apps/{appId}/webhooks/{webhookId}/rotate-secret, GET /merchant/apps/{appId}/transactions/{transactionId},
  GET /merchant/subscriptions, GET /merchant/transactions, GET /merchant/events,
  POST /merchant/transactions, GET /plans/{planId}, GET /merchant/apps/{appId}/subscriptions/{subscriptionId}/timeline,
  GET /subscriber/subscriptions/{subscriptionId}/change, POST /subscriber/subscriptions/{subscriptionId}/change,
  GET /subscriber/subscriptions/{subscriptionId}/plans, GET /subscriber/subscriptions/{subscriptionId}/plan, GET /merchant/apps/{appId}/statements/{month},
  GET /merchant/apps/{appId}/statements/{month}/csv, GET /merchant/apps/{appId}/statements/{month}/page,
  GET /merchant/apps/{appId}/subscriptions/{subscriptionId}/change,
  GET /merchant/apps/{appId}/customers, GET /merchant/apps/{appId}/customers/{customerId},
  GET /merchant/apps/{appId}/customers/{customerId}/credits, POST /merchant/apps/{appId}/customers/{customerId}/credits,
  GET /subscriber/subscriptions/{subscriptionId}/credits,
  GET /merchant/apps/{appId}/customer, GET /merchant/apps/{appId}/refunds,
  GET /merchant/apps/{appId}/invoices, GET /merchant/apps/{appId}/invoices/{invoiceId},
  GET /merchant/apps/{appId}/subscriptions/{subscriptionId}/upcoming,
  POST /merchant/apps/{appId}/invoices/{invoiceId}/void,
  GET /merchant/apps/{appId}/attention, GET /merchant/apps/{appId}/search, GET /merchant/publishing-cost, GET /healthz, GET /readyz`
  .split(',')
  .map((line) => line.trim());

void t.test('the OpenAPI document lists exactly the routes of docs/contract.md', async (t) => {
  const document = (await apiDocument()) as unknown as Document;
  t.equal(document.openapi, '3.1.0');
  const documented = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  );
  t.same(documented.sort(), [...promised].sort());
});

void t.test('operation ids are a verb and a noun, and unique', async (t) => {
  const { paths } = (await apiDocument()) as unknown as Document;
  const ids = Object.values(paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  );
  t.equal(new Set(ids).size, ids.length);
  for (const id of ids)
    t.match(
      id,
      /^(list|get|create|update|delete|revoke|register|verify|cancel|replay|rotate|send|test|export|follow|pause|unpause|set|remove|refund|void)[A-Z][A-Za-z]+$/,
    );
  for (const id of ['listSubscriptions', 'replayDelivery', 'cancelSubscription', 'createWebhook'])
    t.ok(ids.includes(id), id);
});

void t.test('every property and parameter is described, and ids in paths are UUIDs', async (t) => {
  const document = (await apiDocument()) as unknown as Document;
  const undescribed: string[] = [];
  const walk = (node: unknown, place: string) => {
    if (typeof node !== 'object' || node === null) return;
    const { properties, ...rest } = node as { properties?: Record<string, object> };
    for (const [name, property] of Object.entries(properties ?? {})) {
      // A reference says whether the value may be null; the component is described itself.
      const [referred] = 'anyOf' in property ? (property.anyOf as object[]) : [property];
      if (!('description' in property) && !('$ref' in (referred ?? {})))
        undescribed.push(`${place} ${name}`);
      walk(property, `${place}.${name}`);
    }
    for (const [name, value] of Object.entries(rest)) walk(value, `${place}.${name}`);
  };
  walk(document, '');
  for (const [path, operations] of Object.entries(document.paths))
    for (const { parameters = [], operationId } of Object.values(operations))
      for (const { name, in: place, description, schema } of parameters) {
        if (description === undefined) undescribed.push(`${operationId} ${name}`);
        if (place === 'path' && name !== 'month') t.equal(schema.format, 'uuid', `${path} ${name}`);
      }
  t.same(undescribed, []);
});

void t.test('every response has its headers and an example that its schema allows', async (t) => {
  const document = (await apiDocument()) as unknown as Document;
  const contract = await contractOf(document as unknown as ContractDocument);
  for (const [path, operations] of Object.entries(document.paths))
    for (const [method, operation] of Object.entries(operations)) {
      const { parameters = [], operationId } = operation;
      const responses = responsesOf(document, operation);
      for (const [status, { headers = {}, content = {} }] of Object.entries(responses)) {
        const name = `${operationId} ${status}`;
        const takes = (wanted: string) => parameters.some((each) => each.name === wanted);
        for (const header of ['X-Request-Id', 'RateLimit-Remaining'])
          t.ok(header in headers, `${name} ${header}`);
        t.equal('Retry-After' in headers, status === '429' || status === '503', name);
        t.equal(
          'Link' in headers && 'X-Next-Cursor' in headers,
          status === '200' && takes('cursor'),
        );
        t.equal(
          'Idempotency-Replayed' in headers,
          status.startsWith('2') && takes('idempotency-key'),
          name,
        );
        const json = content['application/json'];
        if (json === undefined) continue;
        const answer = {
          method: method.toUpperCase(),
          route: path.replace(/\{(\w+)\}/g, ':$1'),
          status: Number(status),
          headers: {
            'content-type': 'application/json',
            ...Object.fromEntries(Object.keys(headers).map((each) => [each.toLowerCase(), '1'])),
          },
          text: JSON.stringify(json.example),
        };
        t.doesNotThrow(() => contract.answer(answer), name);
      }
    }
});

void t.test(
  'objects and described enums that several schemas use are named components',
  async (t) => {
    const places = new Map<string, string[]>();
    const walk = (node: unknown, place: string) => {
      if (typeof node !== 'object' || node === null) return;
      const { type, enum: words, ...rest } = node as { type?: unknown; enum?: unknown[] };
      const {
        properties = {},
        additionalProperties,
        description,
      } = rest as Record<string, unknown>;
      const isObject =
        Object.keys(properties as object).length > 0 || typeof additionalProperties === 'object';
      // Each response has an envelope of its own.
      const isEnvelope = 'success' in (properties as object);
      const isExplained = typeof description === 'string' && description.includes('\n- `');
      if (type !== undefined && ((isObject && !isEnvelope) || isExplained)) {
        const isWord = (one: unknown) => one !== null && one !== 'null';
        const shape = { ...rest, type: [type].flat().filter(isWord), enum: words?.filter(isWord) };
        const key = JSON.stringify(shape);
        places.set(key, [...(places.get(key) ?? []), place]);
      }
      for (const [name, value] of Object.entries(node))
        if (name !== 'example' && name !== 'examples') walk(value, `${place}.${name}`);
    };
    walk(await apiDocument(), '');
    t.ok(places.size > 100);
    t.same(
      [...places.values()].filter(({ length }) => length > 1),
      [],
      'give the schema a title',
    );
  },
);

void t.test(
  '/openapi.json serves the OpenAPI document that is built from the routes',
  async (t) => {
    const api = await testApi(t);
    const served = await api.call('GET', '/openapi.json');
    t.match(served, { status: 200, headers: { 'content-type': /^application\/json/ } });
    const { info, ...document } = JSON.parse(served.text) as Document & { info: object };
    t.match(info, { title: 'billing', version: /^\d+\.\d+\.\d+/ });
    t.same({ info, ...document }, { ...(await apiDocument()), info }, 'else: npm run build');
  },
);

void t.test('an OpenAPI linter reports no error and no warning', async (t) => {
  const source = JSON.stringify(await apiDocument());
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source, absoluteRef: 'openapi.json', config });
  t.same(
    problems.map(
      ({ ruleId, message, location }) => `${ruleId}: ${message} at ${location[0]?.pointer ?? ''}`,
    ),
    [],
  );
});

void t.test(
  'each operation has an id, a summary, described error responses and an authorization',
  async (t) => {
    const document = (await apiDocument()) as unknown as Document;
    const operations = Object.entries(document.paths).flatMap(([path, found]) =>
      Object.values(found).map((operation) => ({ path, operation })),
    );
    t.equal(
      new Set(operations.map(({ operation }) => operation.operationId)).size,
      operations.length,
    );
    for (const { path, operation } of operations) {
      const responses = responsesOf(document, operation);
      t.ok(operation.summary.length > 5 && operation.tags.length === 1, operation.operationId);
      t.notOk(JSON.stringify(responses).includes('Default Response'), operation.operationId);
      const closed = path.startsWith('/merchant') || path.startsWith('/subscriber');
      if (closed)
        t.match(responses['401']?.content?.['application/json']?.example, {
          success: false,
          data: null,
          error: { code: String },
        });
      if (closed)
        t.ok('401' in responses && '403' in responses && '429' in responses, operation.operationId);
      else t.same(operation.security, [], operation.operationId);
      if (path.includes('{')) t.ok('404' in responses, operation.operationId);
      const walletOnly = path.startsWith('/subscriber') || path.startsWith('/merchant/api-keys');
      if (walletOnly) t.same(operation.security, [{ walletJwt: [] }], operation.operationId);
    }
  },
);

void t.test('/docs shows the OpenAPI document and loads nothing from another host', async (t) => {
  const api = await testApi(t);
  const page = await api.call('GET', '/docs/');
  t.match(page, {
    status: 200,
    headers: { 'content-type': /text\/html/, 'content-security-policy': /default-src 'self'/ },
  });
  t.match(await api.call('GET', '/docs'), { status: 301, headers: { location: '/docs/' } });
  const start = await api.call('GET', '/docs/start.js');
  t.match(start, { status: 200, text: /validatorUrl: null/ });
  for (const { text } of [page, start]) t.notMatch(text, /https?:/);
  const loaded = [...page.text.matchAll(/<(?:link|script|img)[^>]*? (?:src|href)="([^"]+)"/g)].map(
    ([, url]) => url!,
  );
  t.same(loaded, [
    'swagger-ui.css',
    'reference.css',
    'icon.svg',
    'icon.svg',
    'swagger-ui-bundle.js',
    'start.js',
  ]);
  for (const url of loaded) {
    t.ok(!/^(https?:)?\/\//.test(url), url);
    t.equal(
      (await api.call('GET', new URL(url, 'http://billing.test/docs/').pathname)).status,
      200,
      url,
    );
  }
});

void t.test('no spelling of a path below /docs leads to a route of the API', async (t) => {
  const api = await testApi(t);
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = api.app.server.address() as AddressInfo;
  for (const url of [
    '/docs/../merchant/profile',
    '/docs/%2e%2e/merchant/profile',
    '/docs/..%2fmerchant/profile',
    '/docs/static/../../healthz',
  ]) {
    // A path that is sent unchanged. fetch and URL would resolve its dots.
    const [answer] = (await once(
      request({ host: '127.0.0.1', port, path: url, agent: false }).end(),
      'response',
    )) as [IncomingMessage];
    t.match(
      { status: answer.statusCode, answer: JSON.parse(await text(answer)) as unknown },
      { status: 404, answer: { error: { code: 'NOT_FOUND' } } },
      url,
    );
  }
});

void t.test(
  'every field that states a reason is an enum with a sentence for each value',
  async (t) => {
    interface Words {
      enum: string[];
      description: string;
    }
    const { components } = (await apiDocument()) as unknown as {
      components: {
        schemas: Record<string, Words & { properties: Record<string, { anyOf: object[] }> }>;
      };
    };
    for (const [schema, field, words] of [
      ['Subscription', 'endReason', endReasons],
      ['Subscription', 'cancelRequestedBy', cancelRequesters],
      ['Transaction', 'failureReason', failureReasons],
      ['DeliveryAttempt', 'error', failureMeanings],
      ['PingAnswer', 'error', failureMeanings],
    ] as const) {
      const [named, ...others] = components.schemas[schema]!.properties[field]!.anyOf;
      t.same(others, [{ type: 'null' }], `${schema}.${field} may be null`);
      const name = (named as Reference).$ref.replace('#/components/schemas/', '');
      const documented = components.schemas[name]!;
      t.same(documented.enum, Object.keys(words), `${schema}.${field}`);
      for (const [word, about] of Object.entries(words))
        t.ok(documented.description.includes(`\`${word}\`: ${about}`), word);
    }
  },
);
