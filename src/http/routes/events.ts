import { Type } from '@sinclair/typebox';
import { eventTypes } from '../../db/events.ts';
import { type EventListRow, findEvent, listEvents } from '../../db/events-list.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, oneOf, PathId, Time, TimeInput, timeOrNull } from '../fields.ts';
import { pageQuery, type Pages } from '../pages.ts';

const fields = {
  id: Id,
  appId: Id,
  subscriptionId: Id,
  type: oneOf(eventTypes),
  sequence: Type.Integer({ description: 'Counts the events of a subscription without gaps.' }),
  createdAt: Time,
  payload: Type.Unsafe<unknown>({
    type: 'object',
    additionalProperties: true,
    description: 'What is or would be sent: id, type, createdAt and data.',
  }),
};
const Event = Type.Object(fields, { title: 'Event' });
const WholeEvent = Type.Object(
  { ...fields, body: Type.String({ description: 'The payload byte for byte, as it is signed and sent.' }) },
  { title: 'WholeEvent' },
);
const tags = ['events'];

/** The event log of an app. */
export function eventRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  const { sql } = deps;
  api.get(
    '/apps/:appId/events',
    {
      schema: {
        summary: 'List the events of an app',
        tags,
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            ...pageQuery,
            type: Type.Optional(oneOf(eventTypes)),
            since: Type.Optional({ ...TimeInput, description: 'Created at this time or later.' }),
            until: Type.Optional({ ...TimeInput, description: 'Created before this time.' }),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Type.Array(Event)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const page = pages.read(request);
      const { type = null, since, until } = request.query;
      const { id } = await ownApp(deps, request, request.params.appId);
      const filters = { type, since: timeOrNull(since), until: timeOrNull(until) };
      return pages.send(request, reply, (await listEvents(sql, id, filters, page)).map(withPayload));
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
