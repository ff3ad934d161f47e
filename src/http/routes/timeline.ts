import { Type } from '@sinclair/typebox';
import { findSubscription } from '../../db/registrations.ts';
import { listTimeline } from '../../db/timeline.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, nullable, oneOf, PathId, Time } from '../fields.ts';

const TimelineEntry = Type.Object(
  {
    id: Id,
    kind: oneOf(
      ['event', 'payment', 'attempt', 'delivery'],
      'attempt: a payment that a keeper signed and that is under way, or came to nothing.',
    ),
    at: Time,
    what: Type.String({ description: 'The event’s type, or the status of anything else.' }),
    amount: nullable(Type.String({ description: 'USDC base units.' })),
    signature: nullable(Type.String({ description: 'Of the transaction, in Base58.' })),
    detail: nullable(Type.String({ description: 'Why it failed; a delivery’s event type.' })),
    webhookId: nullable({ ...Id, description: 'The endpoint of a delivery.' }),
  },
  { title: 'TimelineEntry' },
);

/** The history of one subscription. */
export function timelineRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/subscriptions/:subscriptionId/timeline',
    {
      schema: {
        summary: 'Read what happened to a subscription',
        description:
          'Events, payments, attempts that have not landed and deliveries, newest first: the newest 200.',
        tags: ['subscriptions'],
        params: Type.Object({ appId: PathId, subscriptionId: PathId }),
        response: { 200: success(Type.Array(TimelineEntry)), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const app = await ownApp(deps, request, request.params.appId);
      const id = idOf(request.params.subscriptionId, 'subscription');
      const subscription = await findSubscription(deps.sql, id);
      if (subscription?.appId !== app.id) throw absent('subscription');
      return ok(await listTimeline(deps.sql, id));
    },
  );
}
