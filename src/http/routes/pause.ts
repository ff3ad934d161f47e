import { Type } from '@sinclair/typebox';
import { findSubscription } from '../../db/registrations.ts';
import { readAccounts } from '../../domain/network.ts';
import { pause, unpause } from '../../domain/pausing.ts';
import type { Api, ApiDeps } from '../context.ts';
import { failures, success } from '../envelope.ts';
import { NoBody, PathId } from '../fields.ts';
import { answerOnce, idempotencyHeaders } from '../idempotency.ts';
import { subscriptionView } from '../subscription-view.ts';
import { ownSubscription, Subscription } from './subscriptions.ts';

const pausing = {
  pause: {
    summary: 'Pause a subscription',
    description:
      'Nothing is collected until it is unpaused, and periods that go by are never charged. Access ends with what is paid. A past-due one becomes active and is no longer tried.',
  },
  unpause: {
    summary: 'Unpause a subscription',
    description:
      'The next payment is due after what is paid, else at once: then for the rest of the period that runs.',
  },
};

/** Pauses and unpauses a subscription. */
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
        await answerOnce(deps, request, reply, 200, async () => {
          const now = verb === 'pause' ? 0n : (await readAccounts(chain, [])).now;
          return async (tx) => {
            if (verb === 'pause') await pause(tx, subscription);
            else await unpause(tx, subscription, now);
            return subscriptionView((await findSubscription(tx, subscription.id)) ?? subscription);
          };
        });
        wakeDispatchers(subscription.appId);
        wakeKeepers();
        return reply;
      },
    );
  }
}
