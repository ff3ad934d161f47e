import { Type } from '@sinclair/typebox';
import { findSubscription } from '../../db/subscriptions/subscriptions.ts';
import { listTimeline } from '../../db/subscriptions/timeline.ts';
import { absent, type Api, type ApiDeps, idOf, ownApp } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, nullable, oneOf, PathId, Time } from '../shapes/fields.ts';

const TimelineEntry = Type.Object(
  {
    id: Id,
    kind: oneOf(
      ['event', 'payment', 'refund', 'attempt', 'delivery'],
      'attempt: a payment that a keeper signed and that is under way, or came to nothing.',
    ),
    at: Time,
    what: Type.String({ description: 'The type of an event; the status of any other entry.' }),
    amount: nullable(Type.String({ description: 'USDC base units.' })),
    amountRefunded: nullable(
      Type.String({
        description: 'Total of a payment’s finalized refunds, USDC base units; null otherwise.',
      }),
    ),
    signature: nullable(Type.String({ description: 'Signature of the transaction, in Base58.' })),
    detail: nullable(
      Type.String({ description: 'The reason of a failure; for a delivery its event type.' }),
    ),
    webhookId: nullable({ ...Id, description: 'The webhook endpoint of a delivery.' }),
  },
  { title: 'TimelineEntry' },
);

export function timelineRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/subscriptions/:subscriptionId/timeline',
    {
      schema: {
        summary: 'Read the history of a subscription',
        description:
          'The newest 200 events, payments, refunds, attempts (open, failed, expired or unexplained) and deliveries, newest first.',
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
