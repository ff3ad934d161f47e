import { Type } from '@sinclair/typebox';
import { countUnpaid, listBlockedPlans } from '../../db/attention.ts';
import { listEndpoints } from '../../db/endpoints.ts';
import { blockReasons } from '../../domain/reasons.ts';
import { type Api, type ApiDeps, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, meaning, PathId } from '../fields.ts';
import { Endpoint } from '../webhook-schemas.ts';

const Attention = Type.Object(
  {
    endpoints: Type.Array(Endpoint, {
      description: 'The webhook endpoint, if its last request failed or it is disabled.',
    }),
    blockedPlans: Type.Array(
      Type.Object({
        id: Id,
        name: Type.String({ description: 'Name of the plan.' }),
        collectionBlockedReason: meaning(blockReasons, 'Why no payment can be collected.'),
      }),
      { description: 'Plans whose payments cannot be collected.' },
    ),
    pastDue: Type.Integer({ description: 'Past-due subscriptions; counted up to 1,000.' }),
    unregistered: Type.Integer({
      description:
        'Subscriptions on chain that are not registered (GET .../unregistered); counted up to 1,000.',
    }),
  },
  { title: 'Attention' },
);

export function attentionRoutes(api: Api, deps: ApiDeps): void {
  api.get(
    '/apps/:appId/attention',
    {
      schema: {
        summary: 'Read what fails in an app',
        description: 'Empty lists and 0 where all is well.',
        tags: ['analytics'],
        params: Type.Object({ appId: PathId }),
        response: { 200: success(Attention), ...failures(401, 403, 404) },
      },
    },
    async (request) => {
      const { sql } = deps;
      const { id } = await ownApp(deps, request, request.params.appId);
      const [endpoints, blockedPlans, unpaid] = await Promise.all([
        listEndpoints(sql, id),
        listBlockedPlans(sql, id),
        countUnpaid(sql, id),
      ]);
      return ok({
        endpoints: endpoints.filter(
          ({ failingSince, disabledAt }) => failingSince !== null || disabledAt !== null,
        ),
        blockedPlans,
        ...unpaid,
      });
    },
  );
}
