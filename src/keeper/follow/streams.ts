// Collects notifications from the WebSocket streams. A loop reads the accounts named in the
// notifications. If an account changed, the loop marks the account's subscriptions as due. If a
// notification was lost, the sweep (sweep.ts) finds the change later.
import { decodeAuthority, decodeSubscription, kindOf } from '../../chain/program/layouts.ts';
import { hasSilentCall } from '../../chain/program/logs.ts';
import { addressesIn } from '../../chain/rpc/named-addresses.ts';
import { newestSlot } from '../../chain/rpc/responses.ts';
import type { ProgramNotification, TransactionNotification } from '../../chain/streams/program.ts';
import type { Follows } from '../../chain/streams/token-accounts.ts';
import { readUnderWay, type UnderWay } from '../../db/money/payment-attempts.ts';
import {
  findFollowed,
  type KeeperSubscription,
  readSubscriptions,
} from '../../db/subscriptions/work.ts';
import { accountChanged, withPayment } from '../../domain/collecting/account-changed.ts';
import { amountPastDue } from '../../domain/invoices/upcoming.ts';
import { chunks } from '../../each.ts';
import { messageOf } from '../../errors.ts';
import type { Context } from '../base/context.ts';
import type { InFlight } from '../track/in-flight.ts';
import type { PlanWatch } from './plan-watch.ts';
import type { Sweep } from './sweep.ts';

/**
 * Maximum number of notifications that are kept while the chain cannot be read. Further
 * notifications are dropped, and the sweep starts, because the sweep also finds the changes of
 * dropped notifications.
 */
const MAX_PENDING = 10_000;
/**
 * After this number of consecutive failed turns of the loop, the notifications are dropped and the
 * sweep is started.
 */
const MAX_FAILURES = 10;
const READ_AT_ONCE = 100;
/** Maximum number of repeated requests for a transaction that is missing at every endpoint. */
const MAX_MISSES = 25;

/** Pending notifications by account, wallet or transaction, each with its slot. */
class PendingNotifications {
  readonly subscriptions = new Map<string, ProgramNotification>();
  readonly wallets = new Map<string, bigint>();
  readonly planPdas = new Map<string, bigint>();
  readonly transactions = new Map<string, { slot: bigint; misses: number }>();

  get size(): number {
    const { subscriptions, wallets, planPdas, transactions } = this;
    return subscriptions.size + wallets.size + planPdas.size + transactions.size;
  }

  /** The highest slot of all pending notifications. */
  get newest(): bigint {
    const { subscriptions, wallets, planPdas, transactions } = this;
    const notifications = [...subscriptions.values(), ...transactions.values()].map(
      ({ slot }) => slot,
    );
    return newestSlot([...notifications, ...wallets.values(), ...planPdas.values()]);
  }

  /**
   * Adds older notifications. An older notification is ignored if this object already has a
   * notification for the same account, wallet or transaction.
   */
  addOlder(older: PendingNotifications): void {
    for (const name of ['subscriptions', 'wallets', 'planPdas', 'transactions'] as const) {
      const pending = this[name] as Map<string, unknown>;
      for (const [key, value] of older[name]) if (!pending.has(key)) pending.set(key, value);
    }
  }
}

export interface NotificationsOptions {
  readonly sweep: Pick<Sweep, 'readNow' | 'gap'>;
  readonly plans: Pick<PlanWatch, 'readNow'>;
  readonly inFlight: Pick<InFlight, 'explains' | 'isOwn'>;
  /** Called with each live subscription account that a notification shows. */
  readonly onLive?: (address: string, seen: { slot: bigint; data: Uint8Array }) => void;
  /** Called after subscriptions were marked as due because their accounts changed. */
  readonly onDue: () => void;
}

/**
 * Collects notifications. The keeper calls `turn` in a loop to read the accounts named in the
 * collected notifications.
 */
export class Notifications {
  readonly #context: Context;
  readonly #options: NotificationsOptions;
  #pending = new PendingNotifications();
  #failures = 0;

  constructor(context: Context, options: NotificationsOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** Queues the notification that an account of the program changed. */
  take(notification: ProgramNotification): void {
    const { address, data, slot } = notification;
    try {
      const kind = kindOf(data);
      if (kind === 'subscription' && !this.#isExplained(notification))
        this.#add((pending) => pending.subscriptions.set(address, notification));
      if (kind === 'authority') this.takeWallet(decodeAuthority(data).user, slot);
      if (kind === 'plan') this.#add((pending) => pending.planPdas.set(address, slot));
    } catch (error) {
      this.#context.log.debug({ address, reason: messageOf(error) }, 'notification undecodable');
    }
  }

  /** Queues the notification of a transaction that called the program. */
  takeTransaction({ signature, slot, logs }: TransactionNotification): void {
    // Only a transaction with a program call that emits no event is read, because such a call may
    // close an account, and no account notification shows the closing. A call that emits an event
    // closes no account, so account notifications show all its changes.
    if (this.#options.inFlight.isOwn(signature) || !hasSilentCall(logs, this.#context.programId))
      return;
    this.#add((pending) => pending.transactions.set(signature, { slot, misses: 0 }));
  }

  /** Queues the notification that a wallet's token account or authority changed. */
  takeWallet(wallet: string, slot: bigint): void {
    this.#add((pending) => pending.wallets.set(wallet, slot));
  }

  /**
   * Reads the accounts named in the pending notifications. Always resolves with false, so that the
   * loop waits. Throws if the chain or the database cannot be reached, and keeps the notifications
   * for the next turn. After MAX_FAILURES failures, drops the notifications and starts the sweep.
   */
  async turn(): Promise<boolean> {
    const taken = this.#pending;
    if (taken.size === 0) return false;
    this.#pending = new PendingNotifications();
    try {
      await this.#read(taken);
      this.#failures = 0;
      return false;
    } catch (error) {
      this.#failures += 1;
      // The most common failure is an endpoint that has not reached the slot of the notification
      // yet. The next turn then succeeds.
      if (this.#failures < MAX_FAILURES && this.#pending.size + taken.size < MAX_PENDING)
        this.#pending.addOlder(taken);
      else {
        this.#failures = 0;
        this.#options.sweep.gap();
      }
      throw error;
    }
  }

  #add(put: (pending: PendingNotifications) => void): void {
    if (this.#pending.size >= MAX_PENDING) {
      this.#options.sweep.gap();
      return;
    }
    put(this.#pending);
  }

  /**
   * Whether the notification only shows the effect of a payment in flight, so that no read is
   * needed. Most notifications come from the keeper's own payments.
   */
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

  async #read(taken: PendingNotifications): Promise<void> {
    const { subscriptions, wallets, planPdas } = taken;
    const { sweep, plans, onDue } = this.#options;
    const newest = taken.newest;
    const named = await this.#addressesIn(taken);
    const planAddresses = [...planPdas.keys(), ...named];
    if (planAddresses.length > 0) await plans.readNow(planAddresses, newest);
    for (const { address, data, slot } of subscriptions.values())
      if (isLiveSubscription(data)) this.#options.onLive?.(address, { slot, data });
    if (subscriptions.size + wallets.size + named.length === 0) return;
    const changed = await this.#changedIds(subscriptions, [...wallets.keys(), ...named], named);
    for (const some of chunks(changed, READ_AT_ONCE)) await sweep.readNow(some, newest);
    if (changed.length > 0) onDue();
  }

  /**
   * Reads the pending transactions and returns the addresses in them. A transaction that is missing
   * at all endpoints is requested again in later turns.
   */
  async #addressesIn({ transactions }: PendingNotifications): Promise<string[]> {
    const { rpc, reportUnreadable } = this.#context;
    const { addresses, unreadable } = await addressesIn(rpc, [...transactions.keys()]);
    for (const one of unreadable) {
      const { slot, misses } = transactions.get(one.signature) ?? { slot: 0n, misses: 0 };
      transactions.delete(one.signature);
      if (one.unreadable === 'missing' && misses < MAX_MISSES)
        this.#pending.transactions.set(one.signature, { slot, misses: misses + 1 });
      // The transaction may have changed an account. The sweep then finds the change, or the keeper
      // sees the change when it decides about the next payment.
      else reportUnreadable([one]);
    }
    return addresses;
  }

  /**
   * Returns the ids of the subscriptions to read: those whose wallet or account address is in
   * `certain`, and those whose notification shows a change. `named` is the part of `certain` that
   * comes from pending transactions. Only these addresses may be account addresses.
   */
  async #changedIds(
    notifications: ReadonlyMap<string, ProgramNotification>,
    certain: readonly string[],
    named: readonly string[],
  ): Promise<string[]> {
    const { sql } = this.#context;
    const ids = await findFollowed(sql, {
      pdas: [...notifications.keys(), ...named],
      wallets: [...certain],
    });
    if (ids.length === 0) return [];
    const [rows, open] = await Promise.all([readSubscriptions(sql, ids), readUnderWay(sql, ids)]);
    const underWay = new Map(open.map((one) => [one.subscriptionId, one]));
    const isCertain = new Set(certain);
    return rows
      .filter((row) => {
        if (isCertain.has(row.subscriberWallet) || isCertain.has(row.subscriptionPda)) return true;
        const notification = notifications.get(row.subscriptionPda);
        return (
          notification !== undefined && mayHaveChanged(row, notification, underWay.get(row.id))
        );
      })
      .map(({ id }) => id);
  }
}

function isLiveSubscription(data: Buffer): boolean {
  try {
    return decodeSubscription(data).expiresAt === 0n;
  } catch {
    return false;
  }
}

function mayHaveChanged(
  row: KeeperSubscription,
  notification: ProgramNotification,
  underWay: UnderWay | undefined,
): boolean {
  try {
    const account = decodeSubscription(notification.data);
    return accountChanged(withPayment(row, account, underWay), account);
  } catch {
    return true;
  }
}

/**
 * Returns the fields of a subscription row that the token account stream needs. Copying the whole
 * row would be slow.
 */
export function followsOf(row: KeeperSubscription): Follows {
  const { id, subscriberWallet, delegationRevokedAt, observedSlot, dueAt } = row;
  const open = row.invoice?.state === 'open' ? row.invoice : null;
  const pastDue = amountPastDue(row, open);
  return { id, subscriberWallet, delegationRevokedAt, observedSlot, dueAt, pastDue };
}
