import { Type } from '@sinclair/typebox';
import { countUnpaid, listBlockedPlans } from '../../db/accounts/attention.ts';
import { listEndpoints } from '../../db/delivering/endpoints.ts';
import { readMerchantOut } from '../../db/offers/sponsor-budgets.ts';
import { isNearLimit, mayBeOut } from '../../domain/offers/limits.ts';
import { blockReasons } from '../../domain/reasons.ts';
import { type Api, type ApiDeps, ownApp } from '../door/context.ts';
import { failures, ok, success } from '../shapes/envelope.ts';
import { Id, Lamports, meaning, PathId } from '../shapes/fields.ts';
import { Endpoint } from '../shapes/webhook-schemas.ts';

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
    pastDue: Type.Integer({ description: 'Counted up to 1,000.' }),
    unregistered: Type.Integer({
      description: 'Subscriptions of GET .../unregistered; counted up to 1,000.',
    }),
    sponsoring: Type.Optional(
      Type.Object(
        {
          lamportsOut: { ...Lamports, description: 'Rent that is out, of all your apps.' },
          lamportsLimit: { ...Lamports, description: 'At it, new subscribers need SOL.' },
        },
        { description: 'Present when sponsored rent is near its limit.' },
      ),
    ),
  },
  { title: 'Attention' },
);

/** Returns the merchant's sponsored rent if more than four fifths of its limit are used. */
async function nearLimit(
  { sql, sponsoring }: ApiDeps,
  merchantId: string,
): Promise<{ lamportsOut: bigint; lamportsLimit: bigint } | undefined> {
  if (sponsoring === undefined) return undefined;
  const merchant = await readMerchantOut(sql, merchantId);
  if (merchant === undefined) return undefined;
  const lamportsLimit = mayBeOut(sponsoring.limits, merchant);
  const { out: lamportsOut } = merchant;
  return isNearLimit(lamportsOut, lamportsLimit) ? { lamportsOut, lamportsLimit } : undefined;
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
        sponsorship === 'on' ? nearLimit(deps, merchantId) : undefined,
      ]);
      return ok({
        endpoints: endpoints.filter(
          ({ failingSince, disabledAt }) => failingSince !== null || disabledAt !== null,
        ),
        blockedPlans,
        ...unpaid,
        ...(sponsoring !== undefined && { sponsoring }),
      });
    },
  );
}
