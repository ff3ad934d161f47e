// Notices from the streams. They say where to read: each turn reads the accounts that came up, and
// makes subscriptions with news due.
import { decodeAuthority, decodeSubscription, kindOf } from '../chain/program/layouts.ts';
import { hasSilentCall } from '../chain/program/logs.ts';
import { addressesIn } from '../chain/rpc/named-addresses.ts';
import { newestSlot } from '../chain/rpc/responses.ts';
import type { ProgramNotification, TransactionNotification } from '../chain/streams/program.ts';
import type { Follows } from '../chain/streams/token-accounts.ts';
import { readUnderWay } from '../db/payment-attempts.ts';
import {
  findFollowed,
  type KeeperSubscription,
  readSubscriptions,
} from '../db/subscription-work.ts';
import { accountChanged } from '../domain/collecting/changes.ts';
import { amountPastDue } from '../domain/collecting/price.ts';
import { chunks } from '../each.ts';
import { messageOf } from '../errors.ts';
import type { Context } from './context.ts';
import type { InFlight } from './in-flight.ts';
import type { PlanWatch } from './plan-watch.ts';
import type { Sweep } from './sweep.ts';

/** Notices kept while the chain cannot be read; beyond that the sweep finds their changes. */
const MOST = 10_000;
/** Failed turns in a row before the notices are dropped and a sweep is started. */
const MAX_FAILURES = 10;
const LOOK_AT_ONCE = 100;
/** Turns for which a transaction that no endpoint returns is looked up. */
const MAX_MISSES = 25;

/** What has come in, by subject, each with its slot. */
class PendingNotifications {
  readonly subscriptions = new Map<string, ProgramNotification>();
  readonly wallets = new Map<string, bigint>();
  readonly planPdas = new Map<string, bigint>();
  readonly transactions = new Map<string, { slot: bigint; misses: number }>();

  get size(): number {
    const { subscriptions, wallets, planPdas, transactions } = this;
    return subscriptions.size + wallets.size + planPdas.size + transactions.size;
  }

  /** The highest slot of all. */
  get newest(): bigint {
    const { subscriptions, wallets, planPdas, transactions } = this;
    const noticed = [...subscriptions.values(), ...transactions.values()].map(({ slot }) => slot);
    return newestSlot([...noticed, ...wallets.values(), ...planPdas.values()]);
  }

  /** Adds older notices; a newer one of the same subject stays. */
  addOlder(older: PendingNotifications): void {
    for (const name of ['subscriptions', 'wallets', 'planPdas', 'transactions'] as const) {
      const own = this[name] as Map<string, unknown>;
      for (const [key, value] of older[name]) if (!own.has(key)) own.set(key, value);
    }
  }
}

export interface NotificationsOptions {
  readonly sweep: Pick<Sweep, 'look' | 'gap'>;
  readonly plans: Pick<PlanWatch, 'look'>;
  readonly inFlight: Pick<InFlight, 'explains' | 'isOwn'>;
  /** Called when subscriptions were made due. */
  readonly onDue: () => void;
}

/** Gathers notices; each turn reads the chain for them. */
export class Notifications {
  readonly #context: Context;
  readonly #options: NotificationsOptions;
  #heard = new PendingNotifications();
  #failures = 0;

  constructor(context: Context, options: NotificationsOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** An account of the program changed. */
  take(notice: ProgramNotification): void {
    const { address, data, slot } = notice;
    try {
      const kind = kindOf(data);
      if (kind === 'subscription' && !this.#isExplained(notice))
        this.#add((heard) => heard.subscriptions.set(address, notice));
      if (kind === 'authority') this.takeWallet(decodeAuthority(data).user, slot);
      if (kind === 'plan') this.#add((heard) => heard.planPdas.set(address, slot));
    } catch (error) {
      this.#context.log.debug({ address, reason: messageOf(error) }, 'notice undecodable');
    }
  }

  /** A transaction named the program. */
  takeTransaction({ signature, slot, logs }: TransactionNotification): void {
    // A call with an event changes an account that stays, and its notice comes anyway.
    if (this.#options.inFlight.isOwn(signature) || !hasSilentCall(logs, this.#context.programId))
      return;
    this.#add((heard) => heard.transactions.set(signature, { slot, misses: 0 }));
  }

  /** A wallet changed in a way that the program's accounts do not show. */
  takeWallet(wallet: string, slot: bigint): void {
    this.#add((heard) => heard.wallets.set(wallet, slot));
  }

  /**
   * Reads the chain for what has come in. Resolves with false. Throws as RPC client and database
   * do; the notices stay for the next turn.
   */
  async turn(): Promise<boolean> {
    const taken = this.#heard;
    if (taken.size === 0) return false;
    this.#heard = new PendingNotifications();
    try {
      await this.#lookInto(taken);
      this.#failures = 0;
      return false;
    } catch (error) {
      this.#failures += 1;
      // Mostly an endpoint that is behind the notice's slot.
      if (this.#failures < MAX_FAILURES && this.#heard.size + taken.size < MOST)
        this.#heard.addOlder(taken);
      else {
        this.#failures = 0;
        this.#options.sweep.gap();
      }
      throw error;
    }
  }

  #add(put: (heard: PendingNotifications) => void): void {
    if (this.#heard.size >= MOST) {
      this.#options.sweep.gap();
      return;
    }
    put(this.#heard);
  }

  /** Our own payments cause most notices: those need no read. */
  #isExplained({ address, owner, data, slot }: ProgramNotification): boolean {
    const { programId } = this.#context;
    try {
      return (
        owner === programId &&
        this.#options.inFlight.explains(address, decodeSubscription(data), slot)
      );
    } catch {
      return false;
    }
  }

  async #lookInto(taken: PendingNotifications): Promise<void> {
    const { subscriptions, wallets, planPdas } = taken;
    const { sweep, plans, onDue } = this.#options;
    const newest = taken.newest;
    const named = await this.#addressesIn(taken);
    const plansHeard = [...planPdas.keys(), ...named];
    if (plansHeard.length > 0) await plans.look(plansHeard, newest);
    if (subscriptions.size + wallets.size + named.length === 0) return;
    const notable = await this.#notable(subscriptions, [...wallets.keys(), ...named], named);
    for (const some of chunks(notable, LOOK_AT_ONCE)) await sweep.look(some, newest);
    if (notable.length > 0) onDue();
  }

  /**
   * The addresses in transactions whose effects no notice shows. Unreadable transactions are looked
   * up again for some turns.
   */
  async #addressesIn({ transactions }: PendingNotifications): Promise<string[]> {
    const { rpc, reportUnreadable } = this.#context;
    const { addresses, unreadable } = await addressesIn(rpc, [...transactions.keys()]);
    for (const one of unreadable) {
      const { slot, misses } = transactions.get(one.signature) ?? { slot: 0n, misses: 0 };
      transactions.delete(one.signature);
      if (one.unreadable === 'missing' && misses < MAX_MISSES)
        this.#heard.transactions.set(one.signature, { slot, misses: misses + 1 });
      // The sweep and the read before each payment see its changes.
      else reportUnreadable([one]);
    }
    return addresses;
  }

  /**
   * Ids of subscriptions that are to be read: those of `certain` wallets or addresses, and those
   * whose notice shows news.
   */
  async #notable(
    noticed: ReadonlyMap<string, ProgramNotification>,
    certain: readonly string[],
    named: readonly string[],
  ): Promise<string[]> {
    const { sql } = this.#context;
    const ids = await findFollowed(sql, {
      pdas: [...noticed.keys(), ...named],
      wallets: [...certain],
    });
    if (ids.length === 0) return [];
    const [rows, open] = await Promise.all([readSubscriptions(sql, ids), readUnderWay(sql, ids)]);
    const underWay = new Set(open.map(({ subscriptionId }) => subscriptionId));
    const isCertain = new Set(certain);
    return rows
      .filter((row) => {
        if (isCertain.has(row.subscriberWallet) || isCertain.has(row.subscriptionPda)) return true;
        const notice = noticed.get(row.subscriptionPda);
        return notice !== undefined && isNotableNotice(row, notice, underWay.has(row.id));
      })
      .map(({ id }) => id);
  }
}

function isNotableNotice(
  row: KeeperSubscription,
  notice: ProgramNotification,
  underWay: boolean,
): boolean {
  try {
    return accountChanged(row, decodeSubscription(notice.data), underWay);
  } catch {
    return true;
  }
}

/**
 * What the streams of token accounts need of a row; its fields are named, since copying all of them
 * takes long.
 */
export function followsOf(row: KeeperSubscription): Follows {
  const { id, subscriberWallet, delegationRevokedAt, observedSlot, dueAt } = row;
  const pastDue = amountPastDue(row);
  return { id, subscriberWallet, delegationRevokedAt, observedSlot, dueAt, pastDue };
}
