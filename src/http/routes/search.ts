import { Type } from '@sinclair/typebox';
import { search } from '../../domain/accounts/search.ts';
import { type Api, type ApiDeps, ownApp } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { ExternalId, Id, nullable, oneOf, PathId, Time, Wallet } from '../shapes/fields.ts';

const SearchHit = Type.Object(
  {
    kind: oneOf(['subscription', 'payment', 'refund', 'event'], 'What was found.'),
    id: Id,
    subscriptionId: nullable({ ...Id, description: 'null for an event of a plan or an endpoint.' }),
    externalId: nullable(ExternalId),
    subscriberWallet: nullable(Wallet),
    planName: nullable(Type.String({ description: 'Name of the subscription’s plan.' })),
    what: Type.String({ description: 'The type of an event; the status of any other hit.' }),
    at: Time,
  },
  { title: 'SearchHit' },
);

/** Registers the route of the dashboard's search box. */
export function searchRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/search',
    {
      schema: {
        summary: 'Search the records of an app',
        description:
          'Finds by the start of an externalId, four or more consecutive characters of a wallet (also both ends as `4fX2…9kLm`), the address of a subscription, the signature of a payment or a refund, and the id of a subscription, payment, refund or event. At most 20 hits.',
        tags: ['subscriptions'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(
          {
            q: Type.Optional(
              Type.String({
                format: 'name',
                description: 'The text, 1 to 120 characters; without it nothing is found.',
                examples: ['alice'],
              }),
            ),
          },
          { additionalProperties: false },
        ),
        response: { 200: success(Type.Array(SearchHit)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request) => {
      const app = await ownApp(deps, request, request.params.appId);
      const text = request.query.q?.trim();
      return ok(text === undefined ? [] : await search(deps.sql, app.id, text));
    },
  );
}
