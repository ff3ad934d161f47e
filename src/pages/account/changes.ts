// Reads what a change of plan costs, and waits until the change has taken effect.
import type { components } from '../../client/openapi.ts';
import type { Change } from '../shared/change-costs.tsx';
import { type Balances, isShort } from '../shared/missing.ts';
import { persistently } from '../shared/persistently.ts';
import type { Session } from '../shared/session.ts';
import { asksSponsor } from '../shared/wallets.ts';
import { readStanding } from './actions.ts';

export type Choice = components['schemas']['PlanChoice'];

/**
 * Reads the costs of a change now. If paid time is left, also reads the costs of a change at the
 * end of the paid time. If the page will ask the service to sponsor the change, the amounts are
 * those of a sponsored change.
 */
export async function readChanges(
  session: Session,
  subscriptionId: string,
  planId: string,
): Promise<Change[]> {
  const sponsored = asksSponsor(session) ? 'true' : 'false';
  const read = (when: Change['when']): Promise<Change> =>
    session.client.get('/subscriber/subscriptions/{subscriptionId}/change', {
      path: { subscriptionId },
      query: { planId, when, sponsored },
    });
  const [now, later] = await Promise.all([read('now'), read('period_end')]);
  return later.startsAt === null ? [now] : [now, later];
}

/** Thrown when the wallet cannot pay for the change. `needsSol` is false for a sponsored change. */
export class WalletLacks extends Error {
  readonly of: Balances;
  readonly needsSol: boolean;

  constructor(of: Balances, needsSol: boolean) {
    super('the wallet lacks the money for the change of plan');
    this.of = of;
    this.needsSol = needsSol;
  }
}

/**
 * Throws WalletLacks if the wallet has less USDC than `today`, the payment due today (base units).
 * If `needsSol` is true, also throws it if the wallet has less SOL than the transaction needs.
 */
export async function refuseLacking(
  session: Session,
  planId: string,
  { today, needsSol }: { today: string; needsSol: boolean },
): Promise<void> {
  const balances = { ...(await readStanding(session, { planId })), usdcNeeded: today };
  if (isShort(balances, needsSol)) throw new WalletLacks(balances, needsSol);
}

const POLL_MS = 1000;
/** How long the page waits for the effect of a change of plan. */
const SEEN_MS = 60_000;

/**
 * Waits until the service has registered the new subscription. The service registers it when the
 * transaction is confirmed. If a sponsor pays the fees, the service registers it only when the
 * transaction is final. Resolves with false after a minute.
 */
export async function isReplaced({ client }: Session, subscriptionId: string): Promise<boolean> {
  const path = { subscriptionId };
  for (const deadline = Date.now() + SEEN_MS; Date.now() < deadline; await pause()) {
    const read = () => client.get('/subscriber/subscriptions/{subscriptionId}', { path });
    const { replacedBy } = await persistently(read);
    if (replacedBy !== null) return true;
  }
  return false;
}

const pause = () => new Promise((resolve) => setTimeout(resolve, POLL_MS));
