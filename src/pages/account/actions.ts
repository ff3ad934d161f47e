// A subscriber's actions on a subscription. The wallet signs a transaction and the service sends
// it. The page then waits until the service has seen the effect.
import { fill } from '../../words/fill.ts';
import { explain, type Explanation } from '../shared/errors.ts';
import { words } from '../shared/language.ts';
import { formatToCent } from '../shared/money.ts';
import { isUnnamed } from '../shared/other-approval.tsx';
import { persistently } from '../shared/persistently.ts';
import { type Session, type Standing, submit, type Subscription } from '../shared/session.ts';
import type { Submitted } from '../shared/sponsored.ts';

export type Verb = 'cancel' | 'resume' | 'repair' | 'close';

const POLL_MS = 1000;
/** How long the page waits for the effect of an action. */
const SEEN_MS = 60_000;

/**
 * Returns the message that the user sees after an action. `ownsDeposit` tells whether this wallet
 * paid the rent of the subscription's account, and so gets the rent when the account is closed.
 */
export function doneText(
  verb: Verb,
  ownsDeposit: boolean,
  { paidThrough, credit }: Pick<Subscription, 'paidThrough' | 'credit'>,
): string {
  const { account, panel } = words;
  const amount = formatToCent(credit);
  const cancelled = paidThrough === null ? account.cancelledUnpaid : account.cancelled;
  return {
    cancel: credit === '0' ? cancelled : fill(account.cancelledCredit, { amount }),
    resume: panel.resumed,
    repair: panel.approved,
    close: ownsDeposit ? account.closed : account.closedOnly,
  }[verb];
}

/**
 * Returns the reason why a transaction failed or is not confirmed in time, in the page's language.
 * Returns undefined for the statuses `confirmed` and `sent`. `sent` means that the wallet itself
 * sent the transaction, so the result is not known yet.
 */
export function problemOf({ status, reason }: Submitted): (() => Explanation) | undefined {
  if (status === 'confirmed' || status === 'sent') return undefined;
  if (status === 'lapsed') return () => ({ text: words.account.lapsed });
  if (status === 'slow') return () => ({ text: words.account.slow });
  const details = reason ?? undefined;
  if (status === 'failed') return () => ({ text: words.account.refused, details });
  return () => ({ text: words.account.unsent, details });
}

/** Returns the text for a transaction whose effect the page did not see in time. */
export const unseenText =
  ({ doubt }: Submitted) =>
  (): Explanation =>
    doubt === undefined ? { text: words.account.slow } : explain(doubt);

export function readStanding(
  session: Session,
  { planId }: Pick<Subscription, 'planId'>,
): Promise<Standing> {
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

/**
 * Waits until the wallet's approval is withdrawn on chain. Used when the wallet itself sent the
 * transaction. Resolves with false after a minute.
 */
export async function isWithdrawn(session: Session, of: Subscription): Promise<boolean> {
  for (const deadline = Date.now() + SEEN_MS; Date.now() < deadline; await pause())
    if ((await persistently(() => readStanding(session, of))).approval !== 'given') return true;
  return false;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));

export interface Acted {
  subscription: Subscription;
  standing: Standing;
  /**
   * The reason why the action failed or why its effect is not visible yet, in the page's language.
   */
  problem?: () => Explanation;
}

/**
 * Runs the action and resolves with the new state of the subscription. The verb `repair` replaces
 * an approval that the wallet gave to another program. If the page has not yet shown this approval
 * to the user (`shown` does not name it), nothing is sent. Throws a WalletRefusal or the service's
 * error.
 */
export async function act(
  session: Session,
  { before, shown, verb }: { before: Subscription; shown: Standing | undefined; verb: Verb },
  step: (name: 'confirm' | 'waiting') => void,
): Promise<Acted> {
  const path = { subscriptionId: before.id };
  const read = async () => ({
    subscription: await session.client.get('/subscriber/subscriptions/{subscriptionId}', { path }),
    standing: await readStanding(session, before),
  });
  const ask = (sponsored: boolean) =>
    session.client.post(`/subscriber/subscriptions/{subscriptionId}/${verb}`, {
      path,
      body: { sponsored },
    });
  if (verb === 'repair') {
    const now = await read();
    if (isUnnamed(now.standing, shown))
      return { ...now, problem: () => ({ text: words.panel.otherApproval }) };
  }
  const submitted = await submit(session, ask, (name) =>
    step(name === 'sign' ? 'confirm' : 'waiting'),
  );
  const problem = problemOf(submitted);
  if (problem !== undefined) return { ...(await persistently(read)), problem };
  const unseen = unseenText(submitted);
  for (const deadline = Date.now() + SEEN_MS; ;) {
    const now = await persistently(read);
    if (shows(verb, now.subscription, now.standing)) return now;
    if (Date.now() > deadline) return { ...now, problem: unseen };
    await pause();
  }
}
