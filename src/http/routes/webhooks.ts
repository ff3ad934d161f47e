import { Type } from '@sinclair/typebox';
import {
  deleteEndpoint,
  insertEndpoint,
  listEndpoints,
  rotateSecret,
} from '../../db/delivering/endpoints.ts';
import { readClock } from '../../db/postgres/clock.ts';
import { newId } from '../../db/postgres/ids.ts';
import { isDuplicate } from '../../db/postgres/outage.ts';
import {
  calledUrl,
  generateWebhookSecret,
  openSecrets,
  sealHeaders,
  urlFault,
} from '../../domain/outbox/endpoints.ts';
import { requeueForNext } from '../../domain/outbox/replay.ts';
import { invalidField, messageOf, ServiceError } from '../../errors.ts';
import {
  absent,
  type Api,
  type ApiDeps,
  ownApp,
  ownEndpoint,
  requesterOf,
} from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { NoBody, nullable, PathId } from '../shapes/fields.ts';
import {
  Endpoint,
  extraEvents,
  headersOf,
  NewEndpoint,
  requestFailure,
  RotatedEndpoint,
  settingsInput,
  url,
} from '../shapes/webhook-schemas.ts';

const DEFAULT_OVERLAP_HOURS = 24;
const PingAnswer = Type.Object(
  {
    status: nullable(Type.Integer({ description: 'HTTP status; null without a response.' })),
    durationMs: Type.Number({ description: 'Milliseconds until the response or the failure.' }),
    error: requestFailure,
    response: nullable(Type.String({ description: 'The start of the response body.' })),
  },
  { title: 'PingAnswer' },
);
const params = Type.Object({ appId: PathId, webhookId: PathId });
const tags = ['webhooks'];

export function webhookRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  rotationRoute(api, deps);
  listRoute(api, deps, pages);
  createRoute(api, deps);
  endpointRoutes(api, deps);
  testRoute(api, deps);
}

/**
 * Returns why an endpoint must not have this URL, or undefined when the URL is allowed. An IP
 * address is checked here. A host name is checked whenever a webhook connects.
 */
function faultOf({ environment, checkWebhookHost }: ApiDeps, text: string): string | undefined {
  const fault = urlFault(text, environment);
  if (fault !== undefined) return fault;
  try {
    checkWebhookHost(new URL(text).hostname);
    return undefined;
  } catch (error) {
    return `must not point into a private network: ${messageOf(error)}`;
  }
}

function listRoute(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/webhooks',
    {
      schema: {
        summary: 'List the webhook endpoints of an app: one or none',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(Endpoint)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      // The list has at most one row, so the service never issues a cursor for this list. read()
      // refuses any cursor.
      pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      return ok(await listEndpoints(sql, id));
    },
  );
}

function createRoute(api: Api, deps: ApiDeps): void {
  const { sql, secretBox, wakeDispatchers } = deps;
  api.post(
    '/apps/:appId/webhooks',
    {
      config: { asksFreshSignIn: true },
      schema: {
        summary: 'Create the webhook endpoint of an app',
        description:
          'An app has at most one: to change it, delete it and create another. Pending deliveries of an endpoint deleted within the last 7 days are queued for the new one. The secret is only shown in this response.',
        tags,
        params: Type.Object({ appId: PathId }),
        headers: idempotencyHeaders,
        body: Type.Object(
          { url, extraEvents: Type.Optional(extraEvents), ...settingsInput },
          { additionalProperties: false },
        ),
        response: { 201: success(NewEndpoint), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      const fault = faultOf(deps, request.body.url);
      if (fault !== undefined) throw invalidField('url', fault);
      const headers = headersOf(request.body.headers ?? null);
      let requeuedDeliveries = 0;
      await respondOnce(deps, request, reply, 201, async () => {
        const { id: appId } = await ownApp(deps, request, request.params.appId);
        const id = await newId(sql);
        const fresh = generateWebhookSecret();
        return async (tx) => {
          const sealed = secretBox.seal(fresh, id);
          const endpoint = await insertEndpoint(tx, {
            id,
            appId,
            url: calledUrl(request.body.url),
            extraEvents: request.body.extraEvents ?? [],
            secret: sealed,
            headers: sealHeaders(secretBox, headers, id),
            maxPerSecond: request.body.maxPerSecond ?? null,
          }).catch(refuseSecond);
          requeuedDeliveries = await requeueForNext(tx, { id, appId }, requesterOf(request, appId));
          return { ...endpoint, secret: fresh, requeuedDeliveries };
        };
      });
      if (requeuedDeliveries > 0) wakeDispatchers();
      return reply;
    },
  );
}

function endpointRoutes(api: Api, deps: ApiDeps): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/webhooks/:webhookId',
    {
      schema: {
        summary: 'Read a webhook endpoint',
        tags,
        params,
        response: { 200: success(Endpoint), ...failures(401, 403, 404) },
      },
    },
    async (request) => ok(await ownEndpoint(deps, request, request.params)),
  );

  api.delete(
    '/apps/:appId/webhooks/:webhookId',
    {
      schema: {
        summary: 'Delete a webhook endpoint',
        description:
          'Pending deliveries are cancelled, and queued again for the next endpoint of the app if that is created within 7 days. All deliveries stay in the list of the app.',
        tags,
        params,
        response: { 200: success(Endpoint), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const endpoint = await ownEndpoint(deps, request, request.params);
      await deleteEndpoint(sql, endpoint.id);
      return ok(endpoint);
    },
  );
}

function testRoute(api: Api, deps: ApiDeps): void {
  const { sql, secretBox, ping } = deps;
  api.post(
    '/apps/:appId/webhooks/:webhookId/test',
    {
      config: { waits: 'servers' },
      schema: {
        summary: 'Send a signed ping to a webhook endpoint',
        description:
          'Sends it immediately, with the headers of a delivery, and returns the response of the endpoint or its failure within 5 seconds.',
        tags,
        params,
        body: NoBody,
        response: { 200: success(PingAnswer), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const {
        id: webhookId,
        appId,
        url: target,
      } = await ownEndpoint(deps, request, request.params);
      const secrets = await openSecrets(sql, secretBox, webhookId);
      if (secrets === undefined) throw absent('webhook endpoint');
      const now = await readClock(sql);
      return ok(await ping({ appId, webhookId, url: target, now, ...secrets }));
    },
  );
}

/**
 * Registers the route that rotates the signing secret. During the overlap, webhooks are also signed
 * with the previous secret.
 */
function rotationRoute(api: Api, deps: ApiDeps): void {
  const { secretBox } = deps;
  api.post(
    '/apps/:appId/webhooks/:webhookId/rotate-secret',
    {
      config: { asksFreshSignIn: true },
      schema: {
        summary: 'Replace the signing secret of a webhook endpoint',
        description:
          'The new secret is only shown in this response. For "overlapHours", webhook-signature carries the signatures of both secrets, the new one first. X-Service-Signature is immediately made with the new one.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: nullable(
          Type.Object(
            {
              overlapHours: Type.Optional(
                Type.Integer({
                  minimum: 0,
                  maximum: 168,
                  default: DEFAULT_OVERLAP_HOURS,
                  description: 'Hours in which the previous secret signs as well.',
                }),
              ),
            },
            { additionalProperties: false },
          ),
        ),
        response: { 200: success(RotatedEndpoint), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) =>
      respondOnce(deps, request, reply, 200, async () => {
        const { id } = await ownEndpoint(deps, request, request.params);
        const fresh = generateWebhookSecret();
        const rotation = {
          id,
          secret: secretBox.seal(fresh, id),
          overlapHours: request.body?.overlapHours ?? DEFAULT_OVERLAP_HOURS,
        };
        return async (tx) => {
          const endpoint = await rotateSecret(tx, rotation);
          if (endpoint === undefined) throw absent('webhook endpoint');
          return { ...endpoint, secret: fresh };
        };
      }),
  );
}

function refuseSecond(error: unknown): never {
  if (!isDuplicate(error, 'one_endpoint_per_app')) throw error;
  throw new ServiceError(
    'CONFLICT',
    'The app has a webhook endpoint already: delete it first. That cancels what is still to be sent to it; the next endpoint gets it when it is created within 7 days.',
  );
}
