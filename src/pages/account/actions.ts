// A subscriber's actions on a subscription. The wallet signs a transaction and the service sends
// it. The page then waits until the service has seen the effect.
import { reasonOf } from '../shared/errors.ts';
import { words } from '../shared/language.ts';
import { type Session, type Standing, submit, type Subscription } from '../shared/session.ts';

export type Verb = 'cancel' | 'resume' | 'repair' | 'close';

const POLL_MS = 1000;
const SEEN_MS = 60_000;

/** Returns the message that the user sees after an action. */
export function doneText(verb: Verb): string {
  const { account, panel } = words;
  return {
    cancel: account.cancelled,
    resume: panel.resumed,
    repair: panel.approved,
    close: account.closed,
  }[verb];
}

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
  /**
   * The reason why the action failed or why its effect is not visible yet, in the page's language.
   */
  problem?: () => string;
}

/**
 * Runs the action and resolves with the new state of the subscription. Throws a WalletRefusal or
 * the service's error.
 */
export async function act(
  session: Session,
  before: Subscription,
  verb: Verb,
  step: (name: 'confirm' | 'waiting') => void,
): Promise<Acted> {
  const path = { subscriptionId: before.id };
  const read = async () => ({
    subscription: await session.client.get('/subscriber/subscriptions/{subscriptionId}', { path }),
    standing: await readStanding(session, before),
  });
  const ask = () =>
    session.client.post(`/subscriber/subscriptions/{subscriptionId}/${verb}`, { path });
  const { status, reason } = await submit(session, ask, (name) =>
    step(name === 'sign' ? 'confirm' : 'waiting'),
  );
  if (status === 'lapsed') return { ...(await read()), problem: () => words.account.lapsed };
  if (status === 'failed')
    return {
      ...(await read()),
      problem: () => (reason === null ? words.account.refused : reasonOf(reason)),
    };
  for (const deadline = Date.now() + SEEN_MS; ;) {
    const now = await read();
    if (shows(verb, now.subscription, now.standing)) return now;
    if (Date.now() > deadline) return { ...now, problem: () => words.account.slow };
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
