import { Type } from '@sinclair/typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import {
  type AnsweredDelivery,
  type DeliveryFilters,
  type DeliveryRow,
  findDelivery,
  findAppOfDelivery,
  listAttempts,
  listDeliveries,
  listDeliveriesOfApp,
} from '../../db/delivering/deliveries.ts';
import { eventTypes } from '../../db/delivering/events.ts';
import { replayDelivery } from '../../domain/outbox/replay.ts';
import { failureMeanings } from '../../webhooks/errors.ts';
import {
  absent,
  type Api,
  type ApiDeps,
  idOf,
  ownApp,
  ownEndpoint,
  requesterOf,
} from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  Id,
  meaning,
  NoBody,
  nullable,
  oneOf,
  PathId,
  several,
  Time,
  TimeInput,
  timeOrNull,
} from '../shapes/fields.ts';
import { requestFailure } from '../shapes/webhook-schemas.ts';

const statuses = ['pending', 'delivered', 'failed', 'cancelled'] as const;
const fields = {
  id: Id,
  webhookId: Id,
  eventId: Id,
  eventType: oneOf(eventTypes, 'The event’s type.'),
  status: oneOf(
    statuses,
    'failed: its retries are exhausted. cancelled: the endpoint was deleted first.',
  ),
  attempts: Type.Integer({ description: 'Number of requests made.' }),
  nextAttemptAt: nullable(Time),
  replayOf: nullable(Id),
  createdAt: Time,
  finishedAt: nullable(Time),
  lastHttpStatus: nullable(
    Type.Integer({ description: 'HTTP status of the last attempt; null without an answer.' }),
  ),
  lastError: nullable(
    meaning(
      failureMeanings,
      'Why the last attempt got no answer; null with an answer.',
      'LastDeliveryError',
    ),
  ),
};
export const Delivery = Type.Object(fields, { title: 'Delivery' });
const Attempt = Type.Object(
  {
    number: Type.Integer({ description: 'Number of the attempt, from 1.' }),
    startedAt: Time,
    durationMs: Type.Integer({ description: 'Milliseconds until the response or the failure.' }),
    httpStatus: nullable(Type.Integer({ description: 'HTTP status; null without a response.' })),
    error: requestFailure,
    response: nullable(Type.String({ description: 'The start of the response body, as text.' })),
    address: nullable(Type.String({ description: 'The IP address of the connection.' })),
  },
  { title: 'DeliveryAttempt' },
);
const WholeDelivery = Type.Object(
  {
    ...fields,
    attemptLog: Type.Array(Attempt, { description: 'The requests in order, at most six.' }),
  },
  { title: 'WholeDelivery' },
);
const params = Type.Object({ appId: PathId, deliveryId: PathId });
const endpointParams = Type.Object({ appId: PathId, webhookId: PathId, deliveryId: PathId });
/** Query parameters that filter deliveries. Both lists of deliveries have these parameters. */
const deliveryFilters = {
  status: several(statuses, 'Only with this status.'),
  type: several(eventTypes, 'Events of this type.'),
  since: Type.Optional({ ...TimeInput, description: 'Created at this time or later.' }),
  until: Type.Optional({ ...TimeInput, description: 'Created before this time.' }),
  httpStatus: Type.Optional(
    Type.String({
      pattern: '^([1-5][0-9]{2}|[1-5]xx|none)$',
      description: 'HTTP status of the last attempt, a class such as 5xx, or none: no answer.',
      examples: ['5xx'],
    }),
  ),
};
const querystring = Type.Object(
  { ...pageQuery, ...deliveryFilters },
  { additionalProperties: false },
);
const tags = ['deliveries'];

interface Filters {
  status?: DeliveryRow['status'][] | undefined;
  type?: string[] | undefined;
  since?: string | undefined;
  until?: string | undefined;
  httpStatus?: string | undefined;
}
const filtersOf = ({ status, type, since, until, httpStatus }: Filters) => ({
  status: status ?? null,
  type: type ?? null,
  since: timeOrNull(since),
  until: timeOrNull(until),
  answer: answerOf(httpStatus),
});

/**
 * Parses a filter for the HTTP status of a delivery. Converts `503` or `5xx` to a range of
 * statuses. `none` (no response) stays `none`.
 */
function answerOf(text: string | undefined): DeliveryFilters['answer'] {
  if (text === undefined) return null;
  if (text === 'none') return text;
  return { least: Number(text.replace('xx', '00')), most: Number(text.replace('xx', '99')) };
}

/**
 * Registers the routes of deliveries. There are two lists: (1) all deliveries of an app, including
 * deliveries to deleted endpoints, and (2) the deliveries of one endpoint.
 */
export function deliveryRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/deliveries',
    {
      schema: {
        summary: 'List the deliveries of an app',
        description: 'Includes deliveries to deleted endpoints of the app.',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring,
        response: { 200: success(Type.Array(Delivery)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      const rows = await listDeliveriesOfApp(sql, id, filtersOf(request.query), page);
      return pages.send(request, reply, rows);
    },
  );
  api.get(
    '/apps/:appId/webhooks/:webhookId/deliveries',
    {
      schema: {
        summary: 'List the deliveries of a webhook endpoint',
        tags,
        params: Type.Object({ appId: PathId, webhookId: PathId }),
        querystring,
        response: { 200: success(Type.Array(Delivery)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownEndpoint(deps, request, request.params);
      const rows = await listDeliveries(sql, id, filtersOf(request.query), page);
      return pages.send(request, reply, rows);
    },
  );
  readRoutes(api, deps);
  replayRoutes(api, deps);
}

async function ownDelivery(
  deps: ApiDeps,
  request: FastifyRequest,
  { appId, deliveryId }: { appId: string; deliveryId: string },
): Promise<AnsweredDelivery> {
  const app = await ownApp(deps, request, appId);
  const id = idOf(deliveryId, 'delivery');
  const delivery = await findDelivery(deps.sql, id);
  if (delivery === undefined || (await findAppOfDelivery(deps.sql, id)) !== app.id)
    throw absent('delivery');
  return delivery;
}

async function deliveryOfEndpoint(
  deps: ApiDeps,
  request: FastifyRequest,
  path: { appId: string; webhookId: string; deliveryId: string },
): Promise<AnsweredDelivery> {
  const endpoint = await ownEndpoint(deps, request, path);
  const delivery = await findDelivery(deps.sql, idOf(path.deliveryId, 'delivery'));
  if (delivery?.webhookId !== endpoint.id) throw absent('delivery');
  return delivery;
}

function readRoutes(api: Api, deps: ApiDeps): void {
  const withAttempts = async (delivery: AnsweredDelivery) => {
    const attempts = await listAttempts(deps.sql, delivery.id);
    const attemptLog = attempts.map(({ response, ...rest }) => ({
      ...rest,
      response: response?.toString('utf8') ?? null,
    }));
    return ok({ ...delivery, attemptLog });
  };
  const schema = {
    summary: 'Read a delivery with its attempts',
    tags,
    response: { 200: success(WholeDelivery), ...failures(401, 403, 404) },
  };
  api.get(
    '/apps/:appId/deliveries/:deliveryId',
    { schema: { ...schema, params } },
    async (request) => withAttempts(await ownDelivery(deps, request, request.params)),
  );
  api.get(
    '/apps/:appId/webhooks/:webhookId/deliveries/:deliveryId',
    { schema: { ...schema, params: endpointParams } },
    async (request) => withAttempts(await deliveryOfEndpoint(deps, request, request.params)),
  );
}

function replayRoutes(api: Api, deps: ApiDeps): void {
  const replay = async (
    request: FastifyRequest,
    reply: FastifyReply,
    appId: string,
    find: () => Promise<DeliveryRow>,
  ) => {
    await respondOnce(deps, request, reply, 201, async () => {
      const { id } = await find();
      const requester = requesterOf(request, idOf(appId, 'app'));
      return async (tx) => {
        const queued = await findDelivery(tx, await replayDelivery(tx, id, requester));
        if (queued === undefined) throw absent('delivery');
        return queued;
      };
    });
    deps.wakeDispatchers();
    return reply;
  };
  const schema = {
    summary: 'Replay a delivery',
    description:
      'Queues a new delivery of the same event, with its own attempts, to the current endpoint of the app.',
    tags,
    headers: idempotencyHeaders,
    body: NoBody,
    response: { 201: success(Delivery), ...failures(400, 401, 403, 404, 409) },
  };
  api.post(
    '/apps/:appId/deliveries/:deliveryId/replay',
    { schema: { ...schema, params } },
    async (request, reply) =>
      replay(request, reply, request.params.appId, () =>
        ownDelivery(deps, request, request.params),
      ),
  );
  api.post(
    '/apps/:appId/webhooks/:webhookId/deliveries/:deliveryId/replay',
    { schema: { ...schema, params: endpointParams } },
    async (request, reply) =>
      replay(request, reply, request.params.appId, () =>
        deliveryOfEndpoint(deps, request, request.params),
      ),
  );
}
