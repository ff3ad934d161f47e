// Finds live subscriptions on chain that are not registered. Their addresses come from the stream's
// notifications, and from the stored offers and list, which are read every few minutes and after a
// stream was interrupted. domain/subscribing/unregistered.ts registers or lists the subscriptions.
import { subscriptionIn } from '../chain/program/accounts.ts';
import { ChainDataError, type SubscriptionAccount } from '../chain/program/layouts.ts';
import { newestSlot } from '../chain/rpc/responses.ts';
import { findPlansAt } from '../db/plans.ts';
import { deleteUnregistered, findRegistered, readAwaited } from '../db/unregistered.ts';
import { registerSeen } from '../domain/subscribing/unregistered.ts';
import type { Context } from './context.ts';

/** Milliseconds between two reads of all stored offers and listed subscriptions. */
const EVERY_MS = 300_000;
/** Maximum number of offers, and of listed subscriptions, that are read at once. */
const MAX_READ = 1000;
/** Maximum number of addresses that wait for the next turn. Further addresses are read later. */
const MAX_PENDING = 10_000;

interface Seen {
  readonly address: string;
  readonly account: SubscriptionAccount;
}

export class Unregistered {
  readonly #context: Context;
  readonly #onRegistered: () => void;
  #pending = new Map<string, bigint>();
  #readAt = -Infinity;

  constructor(context: Context, onRegistered: () => void) {
    this.#context = context;
    this.#onRegistered = onRegistered;
  }

  /** Queues the notification that the subscription account at `address` is live at `slot`. */
  see(address: string, slot: bigint): void {
    if (this.#pending.size < MAX_PENDING) this.#pending.set(address, slot);
  }

  /** Called after a stream was interrupted. The next turn reads all offers. */
  gap(): void {
    this.#readAt = -Infinity;
  }

  /** Reads the queued addresses. Throws when the chain or the database cannot be reached. */
  async turn(): Promise<boolean> {
    const taken = this.#pending;
    this.#pending = new Map();
    const readAt = this.#readAt;
    const isDue = performance.now() - readAt > EVERY_MS;
    try {
      if (isDue) {
        this.#readAt = performance.now();
        for (const address of await readAwaited(this.#context.sql, MAX_READ))
          if (!taken.has(address)) taken.set(address, 0n);
      }
      if (taken.size > 0) await this.#read(taken);
    } catch (error) {
      for (const [address, slot] of taken) this.see(address, slot);
      throw error;
    }
    return false;
  }

  async #read(taken: ReadonlyMap<string, bigint>): Promise<void> {
    const { sql, rpc, log } = this.#context;
    const registered = await findRegistered(sql, [...taken.keys()]);
    const addresses = [...taken.keys()].filter((address) => !registered.has(address));
    if (registered.size > 0) await deleteUnregistered(sql, [...registered]);
    if (addresses.length === 0) return;
    const minSlot = newestSlot([...taken.values()]);
    const { accounts } = await rpc.getMultipleAccounts(addresses, { minSlot });
    const live = addresses.flatMap((address, place): Seen[] => {
      const account = this.#accountIn(accounts[place] ?? null);
      return account === null ? [] : [{ address, account }];
    });
    const isLive = new Set(live.map(({ address }) => address));
    const others = addresses.filter((address) => !isLive.has(address));
    if (others.length > 0) await deleteUnregistered(sql, others);
    const plans = new Map(
      (await findPlansAt(sql, [...new Set(live.map(({ account }) => account.plan))]))
        .filter(({ status }) => status === 'active')
        .map((plan) => [plan.planPda, plan]),
    );
    for (const { address, account } of live) {
      const plan = plans.get(account.plan);
      if (plan === undefined) continue;
      const parts = { sql, chain: rpc, network: this.#network() };
      const outcome = await registerSeen(parts, plan, address, account);
      if (outcome === 'absent') this.see(address, taken.get(address) ?? 0n);
      if (outcome !== 'registered') continue;
      log.info({ subscription: address, plan: plan.id }, 'subscription registered from the chain');
      this.#context.deliveries.notify();
      this.#onRegistered();
    }
  }

  /** Returns the account if it is a live subscription, otherwise null. */
  #accountIn(found: Parameters<typeof subscriptionIn>[0]): SubscriptionAccount | null {
    try {
      const account = subscriptionIn(found, this.#context.programId);
      return account?.expiresAt === 0n ? account : null;
    } catch (error) {
      if (error instanceof ChainDataError) return null;
      throw error;
    }
  }

  #network() {
    const { programId, mint, keeperWallets, treasuries, keypair } = this.#context;
    return {
      programId,
      mint,
      puller: keypair.address,
      standbyPullers: keeperWallets,
      treasury: treasuries[0] ?? '',
    };
  }
}
