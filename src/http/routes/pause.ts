import { Type } from '@sinclair/typebox';
import { findSubscription } from '../../db/subscriptions/subscriptions.ts';
import { readAccounts } from '../../domain/chain-reads.ts';
import { pause, unpause } from '../../domain/change/pausing.ts';
import type { Api, ApiDeps } from '../door/context.ts';
import { respondOnce, idempotencyHeaders } from '../door/idempotency.ts';
import { failures, success } from '../shapes/envelope.ts';
import { NoBody, PathId } from '../shapes/fields.ts';
import { subscriptionView } from '../shapes/subscription-view.ts';
import { ownSubscription, Subscription } from './subscriptions.ts';

const pausing = {
  pause: {
    summary: 'Pause a subscription',
    description:
      'No payment is collected until it is unpaused, and the periods in between are never charged. Access ends with the paid period. A past-due subscription becomes active, and its payment is no longer retried.',
  },
  unpause: {
    summary: 'Unpause a subscription',
    description:
      'The next payment is due at the end of the paid period. If that is over, it is due immediately, for the rest of the current period.',
  },
};

export function pauseRoutes(api: Api, deps: ApiDeps): void {
  const { chain, wakeDispatchers, wakeKeepers } = deps;
  for (const verb of ['pause', 'unpause'] as const) {
    api.post(
      `/apps/:appId/subscriptions/:subscriptionId/${verb}`,
      {
        schema: {
          ...pausing[verb],
          tags: ['subscriptions'],
          params: Type.Object({ appId: PathId, subscriptionId: PathId }),
          headers: idempotencyHeaders,
          body: NoBody,
          response: { 200: success(Subscription), ...failures(400, 401, 403, 404, 409) },
        },
      },
      async (request, reply) => {
        const subscription = await ownSubscription(deps, request);
        await respondOnce(deps, request, reply, 200, async () => {
          const now = verb === 'pause' ? 0n : (await readAccounts(chain, [])).now;
          return async (tx) => {
            if (verb === 'pause') await pause(tx, subscription);
            else await unpause(tx, subscription, now);
            const row = (await findSubscription(tx, subscription.id)) ?? subscription;
            return subscriptionView(row, deps.planMinimumAmount);
          };
        });
        wakeDispatchers(subscription.appId);
        wakeKeepers();
        return reply;
      },
    );
  }
}
