import { Type } from '@sinclair/typebox';
import {
  type EventListRow,
  listedEventTypes,
  findEvent,
  listEvents,
  listEventsOfMerchant,
} from '../../db/delivering/events.ts';
import { absent, type Api, type ApiDeps, idOf, merchantOf, ownApp } from '../door/context.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import {
  Id,
  nullable,
  oneOf,
  PathId,
  several,
  Time,
  TimeInput,
  timeOrNull,
} from '../shapes/fields.ts';

const fields = {
  id: Id,
  appId: Id,
  subscriptionId: nullable({ ...Id, description: 'null for an event of a plan or an endpoint.' }),
  type: oneOf(
    listedEventTypes,
    'The event type. endpoint_disabled is only listed, and sent to no endpoint.',
  ),
  sequence: nullable(
    Type.Integer({
      description:
        'Sequence number of the event in its subscription, without gaps; null for an event of a plan or an endpoint.',
    }),
  ),
  createdAt: Time,
  payload: Type.Unsafe<unknown>({
    type: 'object',
    additionalProperties: true,
    // Name of a schema in the OpenAPI document (scripts/webhook-event.ts).
    component: 'WebhookEvent',
  }),
};
const Event = Type.Object(fields, { title: 'Event' });
const WholeEvent = Type.Object(
  {
    ...fields,
    body: Type.String({ description: 'The payload, byte for byte as it is signed and sent.' }),
  },
  { title: 'WholeEvent' },
);
const tags = ['events'];

export function eventRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  const querystring = Type.Object(
    {
      ...pageQuery,
      type: several(listedEventTypes, 'Events of this type.'),
      subscriptionId: Type.Optional({ ...Id, description: 'Events of this subscription.' }),
      since: Type.Optional({ ...TimeInput, description: 'Created at this time or later.' }),
      until: Type.Optional({ ...TimeInput, description: 'Created before this time.' }),
    },
    { additionalProperties: false },
  );
  api.get(
    '/apps/:appId/events',
    {
      schema: {
        summary: 'List the events of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring,
        response: { 200: success(Type.Array(Event)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = await ownApp(deps, request, request.params.appId);
      const rows = await listEvents(sql, id, filtersOf(request.query), page);
      return pages.send(request, reply, rows.map(withPayload));
    },
  );

  api.get(
    '/events',
    {
      schema: {
        summary: 'List the events of all your apps',
        tags,
        querystring,
        response: { 200: success(Type.Array(Event)), ...failures(400, 401, 403) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { id } = merchantOf(request);
      const rows = await listEventsOfMerchant(sql, id, filtersOf(request.query), page);
      return pages.send(request, reply, rows.map(withPayload));
    },
  );

  api.get(
    '/apps/:appId/events/:eventId',
    {
      schema: {
        summary: 'Read an event',
        tags,
        params: Type.Object({ appId: PathId, eventId: PathId }),
        response: { 200: success(WholeEvent), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const { id: appId } = await ownApp(deps, request, request.params.appId);
      const event = await findEvent(sql, idOf(request.params.eventId, 'event'));
      if (event?.appId !== appId) throw absent('event');
      return ok(withPayload(event));
    },
  );
}

function withPayload(event: EventListRow) {
  return { ...event, payload: JSON.parse(event.body) as unknown };
}

function filtersOf({
  type,
  subscriptionId,
  since,
  until,
}: {
  type?: string[];
  subscriptionId?: string;
  since?: string;
  until?: string;
}) {
  return {
    type: type ?? null,
    subscriptionId: subscriptionId ?? null,
    since: timeOrNull(since),
    until: timeOrNull(until),
  };
}
