// Generates the OpenAPI document from the schemas of the routes. `npm run build` writes it to
// dist/public/openapi.json.
import { isDeepStrictEqual } from 'node:util';
import swagger from '@fastify/swagger';
import Fastify, { type FastifyReply, type FastifyRequest, type RouteOptions } from 'fastify';
import { createRpc } from '../src/chain/rpc/client.ts';
import { connect } from '../src/db/postgres/connect.ts';
import { reportsOn } from '../src/db/postgres/reports.ts';
import { secretBox } from '../src/domain/accounts/secrets.ts';
import type { ErrorCode, Fault } from '../src/errors.ts';
import { buildApp } from '../src/http/app.ts';
import { requestsPerMinute } from '../src/http/door/limits.ts';
import { refusal } from '../src/http/shapes/envelope.ts';
import { createLog } from '../src/log.ts';
import { exampleOf } from './example.ts';
import { operationId } from './operation-ids.ts';
import { webhookEvent, webhooks } from './webhook-event.ts';

const description = `Recurring USDC payments on Solana.

Every response is an envelope: \`success\`, \`data\`, and on a failure \`error\` (code, message, and details for invalid input).
Amounts are strings of USDC base units (6 decimals). Times are ISO 8601 in UTC with milliseconds. Lists are newest first and keyset-paginated:
follow the \`Link\` header (rel="next") or send \`X-Next-Cursor\` as \`cursor\`. Every response carries \`RateLimit-Limit\`, \`RateLimit-Remaining\` and
\`RateLimit-Reset\`; with status 429, \`Retry-After\` is the number of seconds to wait. Requests are checked in this order: credentials (401), rate
(429), role (403), input (400), existence (404), ownership (403).`;

/** The error responses by status. Each of them is a component of the document. */
const refusals: Record<
  string,
  { name: string; code: ErrorCode; about: string; says: string; details?: Fault[] }
> = {
  '400': {
    name: 'ValidationError',
    code: 'VALIDATION_ERROR',
    about: 'the request is not valid.',
    says: 'limit must be a whole number from 1 to 100.',
    details: [{ path: 'limit', message: 'must be a whole number from 1 to 100' }],
  },
  '401': {
    name: 'Unauthorized',
    code: 'UNAUTHORIZED',
    about: 'the credentials are missing, invalid, expired or revoked.',
    says: 'The API key is unknown or has been revoked.',
  },
  '403': {
    name: 'Forbidden',
    code: 'FORBIDDEN',
    about: 'the role of the caller does not allow this, or the object belongs to another merchant.',
    says: 'This app belongs to another account.',
  },
  '404': {
    name: 'NotFound',
    code: 'NOT_FOUND',
    about: 'the object does not exist.',
    says: 'There is no such app.',
  },
  '409': {
    name: 'Conflict',
    code: 'CONFLICT',
    about: 'the object already exists, or its state does not allow this.',
    says: 'This Idempotency-Key was used for another request.',
  },
  '429': {
    name: 'RateLimited',
    code: 'RATE_LIMITED',
    about: 'wait for the seconds in Retry-After.',
    says: 'More than 100 requests in a minute: wait 42 s.',
  },
  '500': {
    name: 'InternalError',
    code: 'INTERNAL_ERROR',
    about: 'a fault of the service.',
    says: 'Something went wrong on our side. If you report it, name the request 3f1c8f0e-8f0b-4f0a-9f57-0d9a4c0f3c55.',
  },
  '503': {
    name: 'Unavailable',
    code: 'INTERNAL_ERROR',
    about: 'the database or the chain is unavailable; try again after Retry-After seconds.',
    says: 'The database is unavailable. Try again in a moment.',
  },
};

const header = (description: string, schema: Json) => ({ description, schema });
const count = { type: 'integer', minimum: 0 };
const headers = {
  'X-Request-Id': header('The request id, as in the log of the service.', {
    type: 'string',
  }),
  'RateLimit-Limit': header('Requests per minute of the caller.', count),
  'RateLimit-Remaining': header('Requests left in this minute.', count),
  'RateLimit-Reset': header('Whole seconds until the minute ends.', count),
  'Retry-After': header('Whole seconds to wait.', { type: 'integer', minimum: 1 }),
  Link: header('The next page, as <URL>; rel="next". Absent on the last page.', { type: 'string' }),
  'X-Next-Cursor': header('The "cursor" of the next page. Absent on the last page.', {
    type: 'string',
  }),
  'X-Data-Age': header(
    'Seconds by which the data may be behind: reports may be read from a replica.',
    { type: 'integer', minimum: 0 },
  ),
  'Idempotency-Replayed': header(
    '"true" if this is the stored response of an earlier request with the same key.',
    {
      type: 'string',
      enum: ['true'],
    },
  ),
};
const everywhere = [
  'X-Request-Id',
  'RateLimit-Limit',
  'RateLimit-Remaining',
  'RateLimit-Reset',
] as const;

type Json = Record<string, unknown>;

/** Returns the OpenAPI document for the routes of this build. */
export async function openApiDocument(version: string): Promise<Json> {
  const routes = await apiRoutes();
  const app = Fastify({ exposeHeadRoutes: false, ajv: { customOptions: { strict: false } } });
  // This instance serves no requests, so schemas need no compilation.
  app.setValidatorCompiler(() => () => true);
  app.setSerializerCompiler(() => () => '');
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'billing', version, description, license: { name: 'Proprietary', url: '/' } },
      servers: [{ url: '/' }],
      security: [{ walletJwt: [] }, { apiKey: [] }],
      tags: tags.map(([name, about]) => ({ name, description: about })),
      components: { securitySchemes },
    },
    transform: ({ schema, url, route }) => {
      const [method] = [route.method].flat();
      const open =
        url.startsWith('/merchant') || url.startsWith('/subscriber') ? {} : { security: [] };
      return {
        schema: {
          ...open,
          operationId: operationId(method ?? 'GET', url.replace(/:(\w+)/g, '{$1}')),
          ...(schema as Json),
        },
        url,
      };
    },
  });
  const handler = (_request: FastifyRequest, reply: FastifyReply) => reply.callNotFound();
  for (const { method, url, schema = {} } of routes) app.route({ method, url, schema, handler });
  await app.ready();
  const document = tidy(app.swagger() as Json);
  await app.close();
  return document;
}

/** Returns the registered routes of the API. Makes no request to Postgres or an RPC endpoint. */
async function apiRoutes(): Promise<RouteOptions[]> {
  const log = createLog('docs', { level: 'silent', pretty: false, stream: 'stderr' });
  // connect() opens a connection only for its first query.
  const sql = connect('postgres://nobody@127.0.0.1:1/none', { max: 1, name: 'docs' });
  const chain = createRpc({ urls: ['http://127.0.0.1:1'], log });
  const app = buildApp({
    sql,
    reports: reportsOn(sql, false),
    log,
    chain,
    network: { programId: '', mint: '', puller: '', treasury: '' },
    cluster: 'localnet',
    environment: 'development',
    publicUrl: 'http://127.0.0.1:3000',
    jwtSecrets: ['a JWT secret that signs nothing ..'],
    secretBox: secretBox(['an encryption key that seals nothing']),
    planMinimumAmount: 1n,
    requestsPerMinute,
    corsOrigins: [],
    dashboardOrigins: [],
    trustProxy: [],
    connectionsPerAddress: 2000,
    ping: () => Promise.reject(new Error('no ping is sent')),
    readSmallFile: () => Promise.reject(new Error('no file is read')),
    checkWebhookHost: () => undefined,
    onResponse: () => undefined,
    wakeDispatchers: () => undefined,
    wakeKeepers: () => undefined,
    wakeReplays: () => undefined,
  });
  const routes: RouteOptions[] = [];
  app.addHook('onRoute', (route) => {
    // Routes of files and pages have no summary and are not part of the document.
    if (route.method !== 'HEAD' && route.schema?.summary !== undefined) routes.push(route);
  });
  await app.ready();
  await app.close();
  await chain.close();
  return routes;
}

const securitySchemes = {
  walletJwt: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'From POST /auth/verify: merchants and subscribers.',
  },
  apiKey: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'sk_live_... or sk_test_...',
    description: 'Merchants’ servers. Not for key management.',
  },
} as const;

const tags: [string, string][] = [
  ['sign-in', 'Wallet sign-in.'],
  ['profile', 'The merchant’s own data.'],
  ['API keys', 'Keys for a merchant’s servers; only a wallet sign-in can manage them.'],
  ['apps', 'A merchant’s products or brands.'],
  ['plans', 'Amount and period, published on chain by the merchant’s wallet.'],
  ['subscriptions', 'A wallet’s subscriptions to plans. Grant access until accessUntil.'],
  ['customers', 'Whom subscriptions belong to: an externalId of yours, else a wallet.'],
  ['checkout', 'Hosted pages in which one customer subscribes.'],
  ['invoices', 'What is owed for each period, and what became of it.'],
  ['transactions', 'Payments, succeeded and failed.'],
  ['analytics', 'Metrics over time.'],
  ['webhooks', 'The endpoints that events are sent to.'],
  ['deliveries', 'Events sent to endpoints, with their attempts.'],
  ['events', 'The event log.'],
  ['subscriber', 'Routes for a subscriber’s page.'],
  ['service', 'Health.'],
];

interface Response extends Json {
  description?: string;
  content?: Record<string, Json & { schema: Json }>;
}
interface Operation {
  tags?: string[];
  parameters?: { name: string; in: string; required?: boolean; explode?: boolean; schema: Json }[];
  responses: Record<string, Response>;
  requestBody?: { required?: boolean; content: Record<string, Json & { schema: Json }> };
}

/**
 * Moves schemas with a title to the components, and completes every operation. A component is never
 * null: where its value may be, the reference says so.
 */
function tidy(document: Json): Json {
  const schemas: Record<string, Json> = {};
  const walk = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(walk);
    if (typeof node !== 'object' || node === null) return node;
    const walked = Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, walk(value)]),
    );
    if (typeof walked.component === 'string')
      return { $ref: `#/components/schemas/${walked.component}` };
    if (typeof walked.title !== 'string' || (walked.type ?? walked.oneOf) === undefined)
      return walked;
    const { title, ...schema } = walked;
    const isNullable = Array.isArray(schema.type) && schema.type.includes('null');
    const component = isNullable ? withoutNull(schema) : schema;
    if (!isDeepStrictEqual(schemas[title] ?? component, component))
      throw new Error(`two schemas have the title ${title}`);
    schemas[title] = component;
    const reference = { $ref: `#/components/schemas/${title}` };
    return isNullable ? { anyOf: [reference, { type: 'null' }] } : reference;
  };
  walk(webhookEvent);
  const events = walk(webhooks);
  const paths = walk(document.paths) as Record<string, Record<string, Operation>>;
  for (const operation of Object.values(paths).flatMap((path) => Object.values(path)))
    complete(operation, schemas);
  return {
    ...document,
    paths,
    webhooks: events,
    components: {
      ...(document.components as Json),
      schemas,
      headers,
      responses: refusalResponses(),
    },
  };
}

/** Returns the schema of the values of a nullable schema other than null. */
function withoutNull({ type, enum: words, ...rest }: Json): Json {
  const [only, ...more] = (type as string[]).filter((one) => one !== 'null');
  return {
    ...rest,
    type: more.length === 0 ? only : [only, ...more],
    ...(Array.isArray(words) && { enum: words.filter((word) => word !== null) }),
  };
}

/**
 * Completes an operation from its schemas: marks optional parameters, adds headers and examples.
 */
function complete(operation: Operation, schemas: Record<string, Json>): void {
  const parameters = operation.parameters ?? [];
  for (const parameter of parameters) {
    if ('default' in parameter.schema) parameter.required = false;
    // A list of values is sent in one parameter, separated by commas.
    if (parameter.schema.type === 'array') parameter.explode = false;
    // The format is only in the document. The routes' schemas do not check it, because the response
    // to a malformed id is a 404.
    if (parameter.in === 'path' && parameter.name.endsWith('Id')) parameter.schema.format = 'uuid';
  }
  const takes = (name: string) => parameters.some((parameter) => parameter.name === name);
  for (const [status, response] of Object.entries(operation.responses)) {
    const refused = refusals[status];
    if (refused !== undefined) {
      operation.responses[status] = { $ref: `#/components/responses/${refused.name}` };
      continue;
    }
    const names: (keyof typeof headers)[] = [...everywhere];
    if (status === '200' && takes('cursor')) names.push('Link', 'X-Next-Cursor');
    if (status.startsWith('2') && takes('idempotency-key')) names.push('Idempotency-Replayed');
    if (status === '200' && (operation.tags?.includes('analytics') === true || takes('bom')))
      names.push('X-Data-Age');
    response.headers = headersNamed(names);
    if (response.description === 'Default Response') response.description = 'Done.';
    for (const media of Object.values(response.content ?? {}))
      media.example = exampleOf(media.schema, schemas);
  }
  const body = operation.requestBody?.content['application/json'];
  const isNullable = Array.isArray(body?.schema.type) || body?.schema.anyOf !== undefined;
  if (operation.requestBody !== undefined && isNullable) operation.requestBody.required = false;
}

function refusalResponses(): Record<string, Response> {
  const responses = Object.entries(refusals).map(([status, refused]) => {
    const { name, code, about, says, details } = refused;
    const waits = status === '429' || status === '503';
    const response = {
      description: `${code}: ${about}`,
      headers: headersNamed([...everywhere, ...(waits ? (['Retry-After'] as const) : [])]),
      content: {
        'application/json': {
          schema: { $ref: '#/components/schemas/Failure' },
          example: refusal(code, says, details),
        },
      },
    };
    return [name, response] as const;
  });
  return Object.fromEntries(responses);
}

function headersNamed(names: readonly (keyof typeof headers)[]): Json {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
