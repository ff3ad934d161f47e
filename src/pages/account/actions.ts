// A subscriber's actions on a subscription. The wallet signs a transaction and the service sends
// it. The page then waits until the service has seen the effect.
import { type Session, type Standing, submit, type Subscription } from '../shared/session.ts';

export type Verb = 'cancel' | 'resume' | 'repair' | 'close';

const POLL_MS = 1000;
const SEEN_MS = 60_000;

export const done: Readonly<Record<Verb, string>> = {
  cancel: 'Cancelled. Nothing more is collected; you keep what you have paid for.',
  resume: 'Your cancellation is taken back. The subscription goes on.',
  repair: 'Payments are approved again.',
  close: 'The account is closed and its deposit is back in your wallet.',
};

export function readStanding(session: Session, { planId }: Subscription): Promise<Standing> {
  return session.client.get('/subscriber/plans/{planId}/standing', { path: { planId } });
}

/** Returns whether the service has seen the effect of the action. */
function shows(verb: Verb, subscription: Subscription, standing: Standing): boolean {
  switch (verb) {
    case 'cancel':
      return (
        subscription.cancelRequestedAt !== null || /cancelled|expired/.test(subscription.status)
      );
    case 'resume':
      return subscription.cancelRequestedAt === null;
    case 'repair':
      return standing.approval === 'given';
    case 'close':
      return standing.onChain === 'none';
  }
}

export interface Acted {
  subscription: Subscription;
  standing: Standing;
  /** Why the action failed or its effect is not visible yet. */
  problem?: string;
}

/**
 * Runs the action and resolves with the new state of the subscription. Throws a WalletRefusal or
 * the service's error.
 */
export async function act(
  session: Session,
  before: Subscription,
  verb: Verb,
  step: (text: string) => void,
): Promise<Acted> {
  const path = { subscriptionId: before.id };
  const read = async () => ({
    subscription: await session.client.get('/subscriber/subscriptions/{subscriptionId}', { path }),
    standing: await readStanding(session, before),
  });
  const ask = () =>
    session.client.post(`/subscriber/subscriptions/{subscriptionId}/${verb}`, { path });
  const { status, reason } = await submit(session, ask, (name) =>
    step(name === 'sign' ? 'Confirm in your wallet…' : 'Waiting for the network…'),
  );
  if (status === 'lapsed')
    return {
      ...(await read()),
      problem: 'The transaction lapsed: it is good for about half a minute. Try again.',
    };
  if (status === 'failed')
    return { ...(await read()), problem: reason ?? 'The network refused it.' };
  for (const deadline = Date.now() + SEEN_MS; ;) {
    const now = await read();
    if (shows(verb, now.subscription, now.standing)) return now;
    if (Date.now() > deadline)
      return { ...now, problem: 'It is on its way. Load the page again in a minute.' };
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
