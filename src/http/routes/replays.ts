// Routes that replay one event, or all deliveries that match a filter. The command `billing replay`
// does the same.
import { Type } from '@sinclair/typebox';
import { findDelivery } from '../../db/delivering/deliveries.ts';
import { eventTypes, findEvent } from '../../db/delivering/events.ts';
import { findRun } from '../../db/delivering/replays.ts';
import {
  everything,
  planReplay,
  replayEvent,
  type ReplayRun,
  requestReplay,
} from '../../domain/outbox/replay.ts';
import { ServiceError } from '../../errors.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp, requesterOf } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  Id,
  NoBody,
  nullable,
  oneOf,
  PathId,
  Time,
  TimeInput,
  timeOrNull,
} from '../shapes/fields.ts';
import { Delivery } from './deliveries.ts';

const statuses = ['pending', 'delivered', 'failed', 'cancelled', 'unsent'] as const;
const fields = {
  id: nullable({ ...Id, description: 'The run; null for a dry run.' }),
  status: oneOf(
    ['counted', 'running', 'finished'],
    'counted: a dry run. running: events are being queued. finished: all are queued.',
  ),
  total: Type.Integer({ description: 'Events that the run queues.' }),
  queued: Type.Integer({ description: 'Events that the run has queued so far.' }),
  createdAt: nullable({ ...Time, description: 'Start of the run.' }),
  finishedAt: nullable({ ...Time, description: 'When the last event was queued.' }),
};
const Replay = Type.Object(fields, { title: 'Replay' });
const NewReplay = Type.Object(
  {
    ...fields,
    matching: Type.Array(
      Type.Object({
        status: oneOf(statuses, 'unsent: events that were never queued for an endpoint.'),
        count: Type.Integer({ description: 'Number of matching deliveries.' }),
        deliverable: Type.Integer({
          description:
            'The number of these that have a live endpoint to go to. Opt-in event types that the endpoint is not subscribed to count only if "type" names them.',
        }),
      }),
      { description: 'The matches, by the status of their newest delivery.' },
    ),
  },
  { title: 'NewReplay' },
);
const body = nullable(
  Type.Object(
    {
      status: Type.Optional(
        oneOf(
          [...statuses, 'retrying'] as const,
          'Status of the newest delivery. unsent: events that were never queued. retrying: pending after a failed attempt, with the next one not due yet; no delivery is added, the next attempt is made now.',
        ),
      ),
      type: Type.Optional(oneOf(eventTypes, 'Events of this type.')),
      since: Type.Optional({ ...TimeInput, description: 'Queued at this time or later.' }),
      until: Type.Optional({ ...TimeInput, description: 'Queued before this time.' }),
      dryRun: Type.Optional(Type.Boolean({ description: 'Count only.' })),
    },
    { additionalProperties: false },
  ),
);
const tags = ['deliveries'];

export function replayRoutes(api: Api, deps: ApiDeps): void {
  eventRoute(api, deps);
  runRoutes(api, deps);
}

function eventRoute(api: Api, deps: ApiDeps): void {
  const { sql, wakeDispatchers } = deps;
  api.post(
    '/apps/:appId/events/:eventId/replay',
    {
      schema: {
        summary: 'Send an event again',
        description:
          'Queues a new delivery to the current endpoint of the app, even for an event that was never sent.',
        tags,
        params: Type.Object({ appId: PathId, eventId: PathId }),
        headers: idempotencyHeaders,
        body: NoBody,
        response: { 201: success(Delivery), ...failures(400, 401, 403, 404, 409) },
      },
    },
    async (request, reply) => {
      await respondOnce(deps, request, reply, 201, async () => {
        const app = await ownApp(deps, request, request.params.appId);
        const event = await findEvent(sql, idOf(request.params.eventId, 'event'));
        if (event?.appId !== app.id) throw absent('event');
        if (event.type === 'endpoint_disabled')
          throw new ServiceError('CONFLICT', 'This event is only listed, and sent to no endpoint.');
        return async (tx) => {
          const queued = await findDelivery(
            tx,
            await replayEvent(tx, event.id, requesterOf(request, app.id)),
          );
          if (queued === undefined) throw absent('delivery');
          return queued;
        };
      });
      wakeDispatchers();
      return reply;
    },
  );
}

function runRoutes(api: Api, deps: ApiDeps): void {
  const { sql, wakeReplays } = deps;
  api.post(
    '/apps/:appId/replays',
    {
      schema: {
        summary: 'Replay all matching events',
        description:
          'Starts a run that queues the events for the current endpoint of the app, or with the status retrying makes the next attempts due now. If an event has several deliveries, the filters apply to the newest. While a run with the same filters is in progress, that run is returned. More than 50,000 deliveries in a run, or in a day for an app or by callers below Pro at one address, are CONFLICT. With "dryRun", matches are only counted (200).',
        tags,
        params: Type.Object({ appId: PathId }),
        headers: idempotencyHeaders,
        body,
        response: {
          200: success(NewReplay),
          201: success(NewReplay),
          ...failures(400, 401, 403, 404, 409),
        },
      },
    },
    async (request, reply) => {
      const { status, type, since, until, dryRun = false } = request.body ?? {};
      await respondOnce(deps, request, reply, dryRun ? 200 : 201, async () => {
        const { id: appId } = await ownApp(deps, request, request.params.appId);
        const range = { since: timeOrNull(since), until: timeOrNull(until) };
        const selection = {
          ...everything,
          ...range,
          appId,
          status: status ?? null,
          type: type ?? null,
        };
        const plan = await deps.reports.run((sql) => planReplay(sql, selection));
        const { matching, deliverable } = plan;
        return async (tx) => ({
          ...(dryRun
            ? counted(deliverable)
            : runOf(await requestReplay(tx, selection, plan, requesterOf(request, appId)))),
          matching: matching as {
            status: (typeof statuses)[number];
            count: number;
            deliverable: number;
          }[],
        });
      });
      if (!dryRun) wakeReplays();
      return reply;
    },
  );

  api.get(
    '/apps/:appId/replays/:replayId',
    {
      schema: {
        summary: 'Read the progress of a replay',
        tags,
        params: Type.Object({ appId: PathId, replayId: PathId }),
        response: { 200: success(Replay), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const app = await ownApp(deps, request, request.params.appId);
      const run = await findRun(sql, idOf(request.params.replayId, 'replay'));
      if (run?.appId !== app.id) throw absent('replay');
      return ok(runOf(run));
    },
  );
}

function counted(total: number) {
  return {
    id: null,
    status: 'counted' as const,
    total,
    queued: 0,
    createdAt: null,
    finishedAt: null,
  };
}

function runOf({ id, total, queued, createdAt, finishedAt }: ReplayRun) {
  const status = finishedAt === null ? ('running' as const) : ('finished' as const);
  return { id, status, total, queued, createdAt, finishedAt };
}
