import { Type } from '@sinclair/typebox';
import type { FastifyRequest } from 'fastify';
import { type DeliveryRow, findDelivery, listAttempts, listDeliveries } from '../../db/deliveries-list.ts';
import { eventTypes } from '../../db/events.ts';
import { replayDelivery } from '../../domain/replay.ts';
import { absent, type Api, type ApiDeps, idOf, ownEndpoint } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, NoBody, nullable, oneOf, PathId, Time, TimeInput, timeOrNull } from '../fields.ts';
import { answerOnce, idempotencyHeaders } from '../idempotency.ts';
import { pageQuery, type Pages } from '../pages.ts';

const statuses = ['pending', 'delivered', 'failed', 'cancelled'] as const;
const fields = {
  id: Id,
  webhookId: Id,
  eventId: Id,
  eventType: oneOf(eventTypes),
  status: oneOf(statuses, 'failed: its retries are exhausted. cancelled: the endpoint was deleted.'),
  attempts: Type.Integer(),
  nextAttemptAt: nullable(Time),
  replayOf: nullable(Id),
  createdAt: Time,
  finishedAt: nullable(Time),
};
const Delivery = Type.Object(fields, { title: 'Delivery' });
const Attempt = Type.Object(
  {
    number: Type.Integer(),
    startedAt: Time,
    durationMs: Type.Integer(),
    httpStatus: nullable(Type.Integer()),
    error: nullable(Type.String({ description: 'Why there was no answer.' })),
    response: nullable(Type.String({ description: 'The start of the answer’s body, as text.' })),
    address: nullable(Type.String({ description: 'The address that was connected to.' })),
  },
  { title: 'DeliveryAttempt' },
);
const WholeDelivery = Type.Object({ ...fields, attemptLog: Type.Array(Attempt) }, { title: 'WholeDelivery' });
const params = Type.Object({ appId: PathId, webhookId: PathId, deliveryId: PathId });
const tags = ['deliveries'];

/** What became of the events of an endpoint. */
export function deliveryRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql, wakeDispatchers } = deps;

  const ownDelivery = async (
    request: FastifyRequest<{ Params: { appId: string; webhookId: string; deliveryId: string } }>,
  ): Promise<DeliveryRow> => {
    const endpoint = await ownEndpoint(deps, request, request.params);
    const delivery = await findDelivery(sql, idOf(request.params.deliveryId, 'delivery'));
    if (delivery?.webhookId !== endpoint.id) throw absent('delivery');
    return delivery;
  };

  api.get(
    '/apps/:appId/webhooks/:webhookId/deliveries',
    {
      schema: {
        summary: 'List the deliveries of a webhook endpoint',
        tags,
        params: Type.Object({ appId: PathId, webhookId: PathId }),
        querystring: Type.Object(
          {
            ...pageQuery,
            status: Type.Optional(oneOf(statuses)),
            type: Type.Optional(oneOf(eventTypes)),
            since: Type.Optional({ ...TimeInput, description: 'Created at this time or later.' }),
            until: Type.Optional({ ...TimeInput, description: 'Created before this time.' }),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Type.Array(Delivery)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { status = null, type = null, since, until } = request.query;
      const endpoint = await ownEndpoint(deps, request, request.params);
      const filters = { status, type, since: timeOrNull(since), until: timeOrNull(until) };
      return pages.send(request, reply, await listDeliveries(sql, endpoint.id, filters, page));
    },
  );

  api.get(
    '/apps/:appId/webhooks/:webhookId/deliveries/:deliveryId',
    {
      schema: {
        summary: 'Read a delivery with its attempts',
        tags,
        params,
        response: { 200: success(WholeDelivery), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const delivery = await ownDelivery(request);
      const attempts = await listAttempts(sql, delivery.id);
      const attemptLog = attempts.map(({ response, ...rest }) => ({ ...rest, response: response?.toString('utf8') ?? null }));
      return ok({ ...delivery, attemptLog });
    },
  );

  api.post(
    '/apps/:appId/webhooks/:webhookId/deliveries/:deliveryId/replay',
    {
      schema: {
        summary: 'Send the event of a delivery again',
        description: 'Queues a new delivery of the same event, with attempts of its own.',
        tags,
        params,
        headers: idempotencyHeaders,
        body: NoBody,
        response: { 201: success(Delivery), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      await answerOnce(deps, request, reply, 201, async () => {
        const { id } = await ownDelivery(request);
        return async (tx) => {
          const queued = await findDelivery(tx, await replayDelivery(tx, id));
          if (queued === undefined) throw absent('delivery');
          return queued;
        };
      });
      wakeDispatchers();
      return reply;
    },
  );
}
