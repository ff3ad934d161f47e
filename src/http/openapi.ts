// The OpenAPI document, made from the routes' own schemas, and the pages that show it (served from here: they load nothing from elsewhere).
import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest, type RouteOptions } from 'fastify';
import type { ErrorCode } from '../errors.ts';
import { refusal } from './envelope.ts';
import { serializerCompiler, validatorCompiler } from './schemas.ts';
import { webhooks } from './webhook-event.ts';

const description = `Recurring USDC payments on Solana.

Every answer is an envelope: \`success\`, \`data\`, and \`error\` (code, message, for invalid input details) only when something went wrong.
Amounts are strings of USDC base units (6 decimals). Times are ISO 8601 in UTC with milliseconds. Lists are newest first and keyset-paginated:
follow the \`Link\` header (rel="next") or send \`X-Next-Cursor\` as \`cursor\`. Every answer carries \`RateLimit-Limit\`, \`RateLimit-Remaining\` and
\`RateLimit-Reset\`; one with status 429 says in \`Retry-After\` how many seconds to wait. Requests are checked in this order: credentials (401), rate
(429), role (403), input (400), existence (404), ownership (403).`;

const refusals: Record<string, [ErrorCode, string]> = {
  '400': ['VALIDATION_ERROR', 'the request is not valid.'],
  '401': ['UNAUTHORIZED', 'the credentials are missing, invalid, expired or revoked.'],
  '403': ['FORBIDDEN', 'not for this kind of caller, or somebody else’s.'],
  '404': ['NOT_FOUND', 'it does not exist.'],
  '409': ['CONFLICT', 'it exists already, or its state does not allow this.'],
  '429': ['RATE_LIMITED', 'wait for as many seconds as Retry-After says.'],
  '500': ['INTERNAL_ERROR', 'our fault.'],
  '503': ['INTERNAL_ERROR', 'not ready.'],
};

type Json = Record<string, unknown>;

/** An instance that serves /openapi.json and /docs, of these routes, and listens nowhere. */
export function buildDocumentation(routes: readonly RouteOptions[], publicUrl: string, version: string): FastifyInstance {
  const app = Fastify({ exposeHeadRoutes: false });
  app.setValidatorCompiler(validatorCompiler());
  app.setSerializerCompiler(serializerCompiler());
  void app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'billing', version, description, license: { name: 'Proprietary', url: publicUrl } },
      servers: [{ url: publicUrl }],
      security: [{ walletJwt: [] }, { apiKey: [] }],
      tags: tags.map(([name, about]) => ({ name, description: about })),
      components: {
        securitySchemes: {
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
        },
      },
    },
    transform: ({ schema, url, route }) => {
      const [method] = [route.method].flat();
      const open = url.startsWith('/merchant') || url.startsWith('/subscriber') ? {} : { security: [] };
      return { schema: { ...open, operationId: operationId(method ?? 'GET', url), ...(schema as Json) }, url };
    },
    transformObject: (document) => ('openapiObject' in document ? tidy(document.openapiObject as Json) : document.swaggerObject) as never,
  });
  void app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP:
      "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; script-src 'self'; object-src 'none'; frame-ancestors 'none'",
    uiConfig: { validatorUrl: null, deepLinking: true, persistAuthorization: false, tryItOutEnabled: true },
  });
  void app.register(async (scope) => {
    // To be described alone: their handlers stay where callers are asked who they are.
    const handler = (_request: FastifyRequest, reply: FastifyReply) => reply.callNotFound();
    for (const { method, url, schema = {} } of routes) scope.route({ method, url, schema, handler });
  });
  let document: string | undefined;
  void app.register(async (scope) => {
    scope.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) => {
      document ??= JSON.stringify(app.swagger());
      return reply.type('application/json; charset=utf-8').send(document);
    });
  });
  return app;
}

const tags: [string, string][] = [
  ['sign-in', 'Wallet sign-in.'],
  ['profile', 'The merchant itself.'],
  ['API keys', 'Keys for a merchant’s servers; managed with a wallet sign-in alone.'],
  ['apps', 'What a merchant sells under.'],
  ['plans', 'Amount and period, published on chain by the merchant’s wallet.'],
  ['subscriptions', 'Who subscribes to what. Grant access while now is before paidThrough.'],
  ['transactions', 'Payments, succeeded and failed.'],
  ['analytics', 'Figures over time.'],
  ['webhooks', 'Where events are sent.'],
  ['deliveries', 'What became of the events that were sent.'],
  ['events', 'Everything that happened.'],
  ['subscriber', 'For a subscriber’s page.'],
  ['service', 'Health.'],
];

/** get /merchant/apps/:appId/plans becomes getMerchantAppPlans: a parameter makes what stands before it singular. */
function operationId(method: string, url: string): string {
  const parts = url.split('/').filter((part) => part !== '');
  const words = parts.flatMap((part, place) => {
    if (part.startsWith(':')) return [];
    const one = parts[place + 1]?.startsWith(':') === true ? part.replace(/s$/, '') : part;
    return one.split(/[^a-zA-Z0-9]+/).map((word) => word.charAt(0).toUpperCase() + word.slice(1));
  });
  return method.toLowerCase() + words.join('');
}

interface Operation {
  parameters?: { required?: boolean; schema: Json }[];
  responses: Record<string, Json>;
  requestBody?: Json;
}

/** Titled schemas become components, refusals say what they mean, and what may be absent (a body, a parameter with a default) is not required. */
function tidy(document: Json): Json {
  const schemas: Json = {};
  const walk = (node: unknown): unknown => {
    if (Array.isArray(node)) return node.map(walk);
    if (typeof node !== 'object' || node === null) return node;
    const walked = Object.fromEntries(Object.entries(node).map(([key, value]) => [key, walk(value)]));
    if (typeof walked.title !== 'string' || walked.type === undefined) return walked;
    const { title, ...schema } = walked;
    schemas[title] = schema;
    return { $ref: `#/components/schemas/${title}` };
  };
  const paths = walk(document.paths) as Record<string, Record<string, Operation>>;
  for (const operation of Object.values(paths).flatMap((path) => Object.values(path))) {
    for (const parameter of operation.parameters ?? []) if ('default' in parameter.schema) parameter.required = false;
    for (const [status, response] of Object.entries(operation.responses)) {
      const refused = refusals[status];
      if (refused === undefined) {
        if (response.description === 'Default Response') response.description = 'Done.';
        continue;
      }
      const [code, meaning] = refused;
      const content = response.content as Record<string, Json>;
      response.description = `${code}: ${meaning}`;
      for (const media of Object.values(content)) media.example = refusal(code, meaning);
      if (status === '429')
        response.headers = { 'Retry-After': { description: 'Whole seconds to wait.', schema: { type: 'integer', minimum: 1 } } };
    }
    const content = operation.requestBody?.content as Record<string, { schema: { type?: unknown } }> | undefined;
    const type = content?.['application/json']?.schema.type;
    if (operation.requestBody !== undefined && Array.isArray(type)) operation.requestBody.required = false;
  }
  return { ...document, paths, webhooks: walk(webhooks), components: { ...(document.components as Json), schemas } };
}
