// The stream: accounts of the program as they change. It tells early what the sweep would find later. Notices are gathered for a moment and only
// lead to a look at the chain, so that late, repeated, missed and forged ones change nothing.
import { AUTHORITY_LENGTH, decodeAuthority, decodeSubscription, PLAN_LENGTH, SUBSCRIPTION_LENGTH } from '../chain/layouts.ts';
import type { SubscriptionAccount } from '../chain/layouts.ts';
import type { ProgramNotice } from '../chain/subscribe.ts';
import { readOpenAttempts } from '../db/payment-attempts.ts';
import { findFollowed, readSubscriptions } from '../db/subscriptions.ts';
import { hasUnknownPull, sameInstance } from '../domain/decide.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import { messageOf } from '../errors.ts';
import type { Context } from './context.ts';
import type { PlanWatch } from './watch-plans.ts';
import type { Sweep } from './sweep.ts';

export interface Notices {
  take(notice: ProgramNotice): void;
  /** Looks into what has come in; resolves with false, there is no more to do at once. */
  turn(): Promise<boolean>;
}

/** Most notices kept while they cannot be looked into; beyond that the sweep does it. */
const MOST = 10_000;

/** Whether an account in a notice says something that the row does not know: our own payments do not. Pure. */
function isNotable(row: HeldSubscription, account: SubscriptionAccount, underWay: boolean): boolean {
  if (sameInstance(row, account) === null) return true;
  if ((account.expiresAt !== 0n) !== (row.cancelRequestedAt !== null))
    return row.cancelRequestedBy !== 'merchant' || account.expiresAt !== 0n;
  return !underWay && hasUnknownPull(row, account);
}

/** Gathers notices; each turn looks into them. */
export function createNotices(
  { sql, log }: Context,
  { sweep, plans, wake }: { sweep: Sweep; plans: PlanWatch; wake: () => void },
): Notices {
  const subscriptions = new Map<string, ProgramNotice>();
  const wallets = new Set<string>();
  const planPdas = new Set<string>();
  return {
    take(notice) {
      if (subscriptions.size + wallets.size + planPdas.size > MOST) {
        sweep.gap();
        return;
      }
      try {
        if (notice.data.length === SUBSCRIPTION_LENGTH) subscriptions.set(notice.address, notice);
        else if (notice.data.length === AUTHORITY_LENGTH) wallets.add(decodeAuthority(notice.data).user);
        else if (notice.data.length === PLAN_LENGTH) planPdas.add(notice.address);
      } catch (error) {
        log.debug({ address: notice.address, reason: messageOf(error) }, 'a notice could not be understood');
      }
    },
    async turn() {
      const heard = new Map(subscriptions);
      const heardWallets = [...wallets];
      const heardPlans = [...planPdas];
      subscriptions.clear();
      wallets.clear();
      planPdas.clear();
      try {
        if (heardPlans.length > 0) await plans.look(heardPlans);
        if (heard.size + heardWallets.length === 0) return false;
        const ids = await findFollowed(sql, { pdas: [...heard.keys()], wallets: heardWallets });
        if (ids.length === 0) return false;
        const [rows, open] = await Promise.all([readSubscriptions(sql, ids), readOpenAttempts(sql, ids)]);
        const underWay = new Set(open.map(({ subscriptionId }) => subscriptionId));
        const heardWallet = new Set(heardWallets);
        const notable = rows.filter((row) => {
          const notice = heard.get(row.subscriptionPda);
          if (notice === undefined) return heardWallet.has(row.subscriberWallet);
          return heardWallet.has(row.subscriberWallet) || notableNotice(row, notice, underWay.has(row.id));
        });
        for (let start = 0; start < notable.length; start += 100) await sweep.look(notable.slice(start, start + 100).map(({ id }) => id));
        if (notable.length > 0) wake();
        return false;
      } catch (error) {
        // Nothing is lost: the sweep finds what these notices told of.
        sweep.gap();
        throw error;
      }
    },
  };
}

function notableNotice(row: HeldSubscription, notice: ProgramNotice, underWay: boolean): boolean {
  try {
    return isNotable(row, decodeSubscription(notice.data), underWay);
  } catch {
    return true;
  }
}
