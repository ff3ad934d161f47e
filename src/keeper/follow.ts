// The stream: accounts of the program as they change, and transactions that changed something without telling an event. It tells early what the sweep
// would find later. Notices are gathered for a moment and only lead to a look at the chain, so that late, repeated, missed and forged ones change
// nothing.
import { AUTHORITY_LENGTH, decodeAuthority, decodeSubscription, PLAN_LENGTH, SUBSCRIPTION_LENGTH } from '../chain/layouts.ts';
import type { SubscriptionAccount } from '../chain/layouts.ts';
import { hasSilentCall } from '../chain/logs.ts';
import type { ProgramNotice, TransactionNotice } from '../chain/subscribe.ts';
import { readUnderWay } from '../db/payment-attempts.ts';
import { findFollowed, readSubscriptions } from '../db/subscriptions.ts';
import { sameInstance } from '../domain/decide.ts';
import { hasUnknownPull } from '../domain/found-pulls.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import { messageOf } from '../errors.ts';
import { addressesIn } from './addresses.ts';
import type { Context } from './context.ts';
import type { Flight } from './flight.ts';
import type { PlanWatch } from './watch-plans.ts';
import type { Sweep } from './sweep.ts';

export interface Notices {
  take(notice: ProgramNotice): void;
  takeTransaction(notice: TransactionNotice): void;
  /** Something was heard of a wallet that the program's accounts do not tell. */
  takeWallet(wallet: string, slot: bigint): void;
  /** Looks into what has come in; resolves with false, there is no more to do at once. */
  turn(): Promise<boolean>;
}

/** Most notices kept while they cannot be looked into; beyond that the sweep does it. */
const MOST = 10_000;
/** Turns in a row that may fail before the sweep is left to find what the notices told of. */
const MOST_FAILURES = 10;
const LOOK_AT_ONCE = 100;
/** Turns after which a transaction that no endpoint has is believed to be gone: a fork forgot it. */
const MOST_MISSES = 25;

/** Whether an account in a notice says something that the row does not know: our own payments do not. Pure. */
function isNotable(row: HeldSubscription, account: SubscriptionAccount, underWay: boolean): boolean {
  if (sameInstance(row, account) === null) return true;
  if ((account.expiresAt !== 0n) !== (row.cancelRequestedAt !== null))
    return row.cancelRequestedBy !== 'merchant' || account.expiresAt !== 0n;
  return !underWay && hasUnknownPull(row, account);
}

/** What came in, by what it is about, each with the slot it was heard of at. */
interface Heard {
  subscriptions: Map<string, ProgramNotice>;
  wallets: Map<string, bigint>;
  planPdas: Map<string, bigint>;
  transactions: Map<string, { slot: bigint; misses: number }>;
}

const nothing = (): Heard => ({ subscriptions: new Map(), wallets: new Map(), planPdas: new Map(), transactions: new Map() });
const sizeOf = ({ subscriptions, wallets, planPdas, transactions }: Heard) =>
  subscriptions.size + wallets.size + planPdas.size + transactions.size;

/** Gathers notices; each turn looks into them. */
export function createNotices(
  { sql, log, rpc, programId }: Context,
  { sweep, plans, flight, wake }: { sweep: Sweep; plans: PlanWatch; flight: Pick<Flight, 'explains' | 'isOurs'>; wake: () => void },
): Notices {
  let heard = nothing();
  let failures = 0;

  /** Room for one more; without it the sweep has to find everything. */
  function room(): boolean {
    if (sizeOf(heard) < MOST) return true;
    sweep.gap();
    return false;
  }

  async function lookInto({ subscriptions, wallets, planPdas, transactions }: Heard): Promise<void> {
    const { addresses: named, missing } = await addressesIn(rpc, [...transactions.keys()]);
    for (const signature of missing) {
      const { slot, misses } = transactions.get(signature) ?? { slot: 0n, misses: 0 };
      if (misses < MOST_MISSES) heard.transactions.set(signature, { slot, misses: misses + 1 });
      transactions.delete(signature);
    }
    const slots = [...subscriptions.values(), ...transactions.values()].map(({ slot }) => slot);
    const newest = [...slots, ...wallets.values(), ...planPdas.values()].reduce((highest, slot) => (slot > highest ? slot : highest), 0n);
    const plansHeard = [...planPdas.keys(), ...named];
    if (plansHeard.length > 0) await plans.look(plansHeard, newest);
    if (subscriptions.size + wallets.size + named.length === 0) return;
    const ids = await findFollowed(sql, { pdas: [...subscriptions.keys(), ...named], wallets: [...wallets.keys(), ...named] });
    if (ids.length === 0) return;
    const [rows, open] = await Promise.all([readSubscriptions(sql, ids), readUnderWay(sql, ids)]);
    const underWay = new Set(open.map(({ subscriptionId }) => subscriptionId));
    const certain = new Set([...wallets.keys(), ...named]);
    const notable = rows.filter((row) => {
      if (certain.has(row.subscriberWallet) || certain.has(row.subscriptionPda)) return true;
      const notice = subscriptions.get(row.subscriptionPda);
      return notice !== undefined && notableNotice(row, notice, underWay.has(row.id));
    });
    for (let start = 0; start < notable.length; start += LOOK_AT_ONCE) {
      await sweep.look(
        notable.slice(start, start + LOOK_AT_ONCE).map(({ id }) => id),
        newest,
      );
    }
    if (notable.length > 0) wake();
  }

  /** Of most notices our own payments are the cause: those are known without asking anybody. */
  function isExplained({ address, owner, data, slot }: ProgramNotice): boolean {
    try {
      return owner === programId && flight.explains(address, decodeSubscription(data), slot);
    } catch {
      return false;
    }
  }

  return {
    take(notice) {
      if (!room()) return;
      try {
        if (notice.data.length === SUBSCRIPTION_LENGTH) {
          if (!isExplained(notice)) heard.subscriptions.set(notice.address, notice);
        } else if (notice.data.length === AUTHORITY_LENGTH) heard.wallets.set(decodeAuthority(notice.data).user, notice.slot);
        else if (notice.data.length === PLAN_LENGTH) heard.planPdas.set(notice.address, notice.slot);
      } catch (error) {
        log.debug({ address: notice.address, reason: messageOf(error) }, 'a notice could not be understood');
      }
    },
    takeTransaction({ signature, slot, logs }) {
      // Our own payments call nothing silently. Whatever tells an event has changed an account that stays, and is heard of by that.
      if (!flight.isOurs(signature) && hasSilentCall(logs, programId) && room()) heard.transactions.set(signature, { slot, misses: 0 });
    },
    takeWallet(wallet, slot) {
      if (room()) heard.wallets.set(wallet, slot);
    },
    async turn() {
      const taken = heard;
      heard = nothing();
      if (sizeOf(taken) === 0) return false;
      try {
        await lookInto(taken);
        failures = 0;
        return false;
      } catch (error) {
        failures += 1;
        if (failures < MOST_FAILURES && sizeOf(heard) + sizeOf(taken) < MOST) {
          // Mostly an endpoint that is not yet where the notice came from. What came in meanwhile is newer.
          heard = {
            subscriptions: new Map([...taken.subscriptions, ...heard.subscriptions]),
            wallets: new Map([...taken.wallets, ...heard.wallets]),
            planPdas: new Map([...taken.planPdas, ...heard.planPdas]),
            transactions: new Map([...taken.transactions, ...heard.transactions]),
          };
        } else {
          // Nothing is lost: the sweep finds what these notices told of.
          failures = 0;
          sweep.gap();
        }
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
