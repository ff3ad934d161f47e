import { Type } from '@sinclair/typebox';
import { countUnpaid, listBlockedPlans } from '../../db/attention.ts';
import { listEndpoints } from '../../db/endpoints.ts';
import { readMerchantOut } from '../../db/sponsor-budgets.ts';
import { blockReasons } from '../../domain/reasons.ts';
import { isNearLimit, mayBeOut } from '../../domain/sponsoring/limits.ts';
import { type Api, type ApiDeps, ownApp } from '../context.ts';
import { failures, ok, success } from '../envelope.ts';
import { Id, Lamports, meaning, nullable, PathId } from '../fields.ts';
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
    sponsoring: nullable(
      Type.Object(
        {
          lamportsOut: {
            ...Lamports,
            description:
              'Rent that the service paid for your subscribers, of all apps, and that has not come back.',
          },
          lamportsLimit: {
            ...Lamports,
            description: 'As much may be out. At the limit, a new subscriber needs SOL.',
          },
        },
        {
          description:
            'Set when over four fifths of the rent that may be out are out; null otherwise, and where the app is not sponsored.',
        },
      ),
    ),
  },
  { title: 'Attention' },
);

/** Returns the merchant's sponsored rent if almost as much is out as may be out, else null. */
async function nearLimit(
  { sql, sponsoring }: ApiDeps,
  merchantId: string,
): Promise<{ lamportsOut: bigint; lamportsLimit: bigint } | null> {
  if (sponsoring === undefined) return null;
  const merchant = await readMerchantOut(sql, merchantId);
  if (merchant === undefined) return null;
  const lamportsLimit = mayBeOut(sponsoring.limits, merchant);
  const { out: lamportsOut } = merchant;
  return isNearLimit(lamportsOut, lamportsLimit) ? { lamportsOut, lamportsLimit } : null;
}

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
      const { id, merchantId, sponsorship } = await ownApp(deps, request, request.params.appId);
      const [endpoints, blockedPlans, unpaid, sponsoring] = await Promise.all([
        listEndpoints(sql, id),
        listBlockedPlans(sql, id),
        countUnpaid(sql, id),
        sponsorship === 'on' ? nearLimit(deps, merchantId) : null,
      ]);
      return ok({
        endpoints: endpoints.filter(
          ({ failingSince, disabledAt }) => failingSince !== null || disabledAt !== null,
        ),
        blockedPlans,
        ...unpaid,
        sponsoring,
      });
    },
  );
}
