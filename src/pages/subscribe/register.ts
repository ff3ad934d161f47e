// Registers a subscription that the wallet has opened on chain.
import { isCode } from '../shared/errors.ts';
import type { PublicPlan, Session, Standing, Subscription } from '../shared/session.ts';
import { isLive } from '../shared/status.ts';

interface Ordered {
  readonly plan: PublicPlan;
  readonly checkoutSessionId: string | undefined;
}

/**
 * Registers a subscription that is on chain. If the subscription is already registered, reads it
 * from the service. `offerId` is the offer whose transaction this page has sent.
 */
export async function register(
  { client }: Session,
  { plan: { id: planId, appId }, checkoutSessionId }: Ordered,
  { subscriptionPda }: Standing,
  offerId?: string,
): Promise<Subscription> {
  try {
    return await client.post('/subscriber/subscriptions', {
      body: {
        appId,
        planId,
        subscriptionPda,
        ...(checkoutSessionId !== undefined && { checkoutSessionId }),
        ...(offerId !== undefined && { offerId }),
      },
    });
  } catch (error) {
    if (!isCode(error, 'CONFLICT')) throw error;
    for await (const one of client.list('/subscriber/subscriptions', { query: { limit: 100 } }))
      if (one.subscriptionPda === subscriptionPda && isLive(one.status)) return one;
    throw error;
  }
}
