import { Type } from '@sinclair/typebox';
import { listUnregistered } from '../../db/subscriptions/unregistered.ts';
import { type Api, type ApiDeps, ownApp } from '../door/context.ts';
import { pageQuery, type Pages } from '../door/pages.ts';
import { failures, success } from '../shapes/envelope.ts';
import { Id, PathId, Pda, Time, Wallet } from '../shapes/fields.ts';

const Unregistered = Type.Object(
  {
    id: Id,
    appId: Id,
    planId: Id,
    subscriptionPda: Pda,
    subscriberWallet: Wallet,
    createdAt: { ...Time, description: 'Time at which the keeper saw it first.' },
  },
  { title: 'UnregisteredSubscription' },
);

/** Registers the route that lists live on-chain subscriptions without a registration. */
export function unregisteredRoutes(api: Api, deps: ApiDeps, pages: Pages): void {
  api.get(
    '/apps/:appId/unregistered',
    {
      schema: {
        summary: 'List subscriptions on chain that are not registered',
        description:
          'Accounts that wallets opened without the service. Nothing is collected from them until their wallet registers them, or the app has registerUnclaimed. A subscription that has ended here is not among them.',
        tags: ['subscriptions'],
        params: Type.Object({ appId: PathId }),
        querystring: Type.Object(pageQuery, { additionalProperties: false }),
        response: { 200: success(Type.Array(Unregistered)), ...failures(400, 401, 403, 404) },
      },
    },
    async (request, reply) => {
      const { id } = await ownApp(deps, request, request.params.appId);
      return pages.send(request, reply, await listUnregistered(deps.sql, id, pages.read(request)));
    },
  );
}
