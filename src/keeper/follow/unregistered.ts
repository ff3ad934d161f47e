// Finds live subscriptions on chain that are not registered. There are three sources of addresses:
// (1) The stream reports addresses. (2) Every 5 minutes, the database returns the addresses of
// offers, of unregistered subscriptions that were found before, and of subscriptions that a change
// of plan has replaced. (3) After a start or an interruption of a stream, all live accounts of each
// active plan are listed, at most once an hour. Accounts that only their wallets can register again
// are left out (domain/registration/ended.ts). domain/registration/unregistered.ts registers each
// found subscription, or adds it to the merchant's list of unregistered subscriptions. An offer is
// given up after 24 hours if its address has no live account or a registered one.
import { liveSubscriptionIn } from '../../chain/program/accounts.ts';
import {
  type AccountIdentity,
  ChainDataError,
  decodeIdentity,
  IDENTITY,
  liveSubscriptionFilter,
  type SubscriptionAccount,
} from '../../chain/program/layouts.ts';
import { ACCOUNTS_AT_ONCE } from '../../chain/rpc/accounts.ts';
import { RpcError, RpcUnreachable } from '../../chain/rpc/errors.ts';
import { currentOf, isWitnessed } from '../../chain/rpc/expiry.ts';
import { newestSlot } from '../../chain/rpc/responses.ts';
import { findNewestRegistrations } from '../../db/subscriptions/account-registrations.ts';
import { findPlansAt, listActivePlanPdas } from '../../db/subscriptions/plans.ts';
import {
  deleteUnregistered,
  findOldOffers,
  giveUpOffers,
  takeAwaited,
} from '../../db/subscriptions/unregistered.ts';
import { isRegistered, withoutKnown } from '../../domain/registration/ended.ts';
import { registerSeen } from '../../domain/registration/unregistered.ts';
import { chunks } from '../../each.ts';
import type { Context } from '../base/context.ts';

/**
 * Maximum number of addresses that one read of the database returns for each kind: offers,
 * unregistered subscriptions and replaced subscriptions.
 */
const MAX_READ = 1000;
/**
 * Maximum number of addresses that wait for the next turn. Further addresses are dropped and found
 * again later in the database or on chain.
 */
const MAX_PENDING = 10_000;

/** A report that an account is live. */
interface Sighting {
  readonly slot: bigint;
  /** Undefined if only the address is known. */
  readonly identity?: AccountIdentity | undefined;
}

interface LiveAccount {
  readonly address: string;
  readonly account: SubscriptionAccount;
}

/** Decodes the account's identity. Undefined if an endpoint returned other data than requested. */
function identityOf(data: Uint8Array): AccountIdentity | undefined {
  try {
    return decodeIdentity(data);
  } catch (error) {
    if (error instanceof ChainDataError) return undefined;
    throw error;
  }
}

export class Unregistered {
  readonly #context: Context;
  readonly #onRegistered: () => void;
  #pending = new Map<string, Sighting>();
  #readAt = -Infinity;
  /** Whether the next read of the database includes postponed addresses. */
  #readsAgain = true;
  /**
   * The plans that the current listing has not reached yet. `#lapAt` is the start of the listing.
   */
  #plans: string[] = [];
  #lapAt = -Infinity;
  #isLapDue = true;

  constructor(context: Context, onRegistered: () => void) {
    this.#context = context;
    this.#onRegistered = onRegistered;
  }

  /** Queues the notification that the subscription account at `address` is live at `slot`. */
  see(address: string, { slot, data }: { slot: bigint; data: Uint8Array }): void {
    this.#await(address, { slot, identity: identityOf(data) });
  }

  #await(address: string, sighting: Sighting): void {
    if (this.#pending.size < MAX_PENDING) this.#pending.set(address, sighting);
  }

  /**
   * Called after a stream was interrupted. The next turn reads all addresses from the database,
   * including postponed ones. Listing the accounts of all plans becomes due.
   */
  gap(): void {
    this.#readAt = -Infinity;
    this.#readsAgain = true;
    this.#isLapDue = true;
  }

  /**
   * Reads the accounts at the queued addresses. While a listing of all plans runs, first lists the
   * accounts of its next plan. Throws if the chain or the database is unreachable.
   */
  async turn(): Promise<boolean> {
    await this.#listPlan();
    const taken = this.#pending;
    this.#pending = new Map();
    const readAt = this.#readAt;
    const isDue = performance.now() - readAt > this.#context.times.unregistered.everyMs;
    let awaited: string[] = [];
    try {
      if (isDue) {
        this.#readAt = performance.now();
        const options = { limit: MAX_READ, again: this.#readsAgain };
        awaited = await takeAwaited(this.#context.sql, options);
        for (const address of awaited) if (!taken.has(address)) taken.set(address, { slot: 0n });
        this.#readsAgain = false;
      }
      const registered = taken.size > 0 ? await this.#read(taken) : new Set<string>();
      if (awaited.length > 0) await this.#giveUp(awaited, registered);
    } catch (error) {
      for (const [address, sighting] of taken) this.#await(address, sighting);
      this.#readAt = Math.min(this.#readAt, readAt);
      throw error;
    }
    return false;
  }

  /**
   * Lists the live accounts of the next plan. If no endpoint lists these accounts, the listing ends
   * and starts again later with all plans.
   */
  async #listPlan(): Promise<void> {
    const { sql, rpc, log, programId, times } = this.#context;
    const now = performance.now();
    if (
      this.#isLapDue &&
      this.#plans.length === 0 &&
      now - this.#lapAt > times.unregistered.lapMs
    ) {
      this.#plans = await listActivePlanPdas(sql);
      this.#lapAt = now;
      this.#isLapDue = false;
    }
    const plan = this.#plans.at(-1);
    if (plan === undefined) return;
    try {
      const filter = liveSubscriptionFilter(plan);
      const found = await rpc.getProgramAccounts(programId, filter, { slice: IDENTITY });
      for (const batch of chunks(found, MAX_READ)) {
        const accounts = batch.map(({ address, account }) => ({
          address,
          identity: identityOf(account.data),
        }));
        for (const address of await withoutKnown(sql, accounts)) this.#await(address, { slot: 0n });
      }
      this.#plans.pop();
    } catch (error) {
      if (!(error instanceof RpcError || error instanceof RpcUnreachable)) throw error;
      log.warn({ err: error, plan }, 'accounts of plans not listed');
      this.#plans = [];
      this.#isLapDue = true;
    }
  }

  /** Reads the accounts. Returns the addresses whose live account has a live registration. */
  async #read(taken: ReadonlyMap<string, Sighting>): Promise<Set<string>> {
    const { sql, rpc, programId } = this.#context;
    const newest = await findNewestRegistrations(sql, [...taken.keys()]);
    const isKnown = (address: string, identity: AccountIdentity | undefined) =>
      identity !== undefined && isRegistered(newest.get(address), identity);
    const registered = new Set<string>();
    for (const [address, { identity }] of taken)
      if (isKnown(address, identity)) registered.add(address);
    const addresses = [...taken.keys()].filter((address) => !registered.has(address));
    const minSlot = newestSlot([...taken.values()].map(({ slot }) => slot));
    const { accounts } =
      addresses.length === 0
        ? { accounts: [] }
        : await rpc.getMultipleAccounts(addresses, { minSlot });
    const live = addresses.flatMap((address, index): LiveAccount[] => {
      const account = liveSubscriptionIn(accounts[index] ?? null, programId);
      if (account === null) return [];
      if (!isKnown(address, account)) return [{ address, account }];
      registered.add(address);
      return [];
    });
    if (registered.size > 0) await deleteUnregistered(sql, [...registered]);
    const isLive = new Set(live.map(({ address }) => address));
    const others = addresses.filter((address) => !isLive.has(address) && !registered.has(address));
    if (others.length > 0) await deleteUnregistered(sql, others);
    await this.#register(live, taken);
    return registered;
  }

  async #register(
    live: readonly LiveAccount[],
    taken: ReadonlyMap<string, Sighting>,
  ): Promise<void> {
    const { sql, rpc, log, rules } = this.#context;
    if (live.length === 0) return;
    const plans = new Map(
      (await findPlansAt(sql, [...new Set(live.map(({ account }) => account.plan))]))
        .filter(({ status }) => status === 'active' || status === 'sunset')
        .map((plan) => [plan.planPda, plan]),
    );
    const closed = live.filter(({ account }) => !plans.has(account.plan));
    for (const one of live) {
      const { address, account } = one;
      const plan = plans.get(account.plan);
      if (plan === undefined) continue;
      const { minimumAmount: minimum } = rules;
      const parts = { sql, chain: rpc, network: this.#network(), minimum };
      const outcome = await registerSeen(parts, plan, address, account);
      if (outcome === 'closed') closed.push(one);
      if (outcome === 'absent') this.#await(address, { slot: taken.get(address)?.slot ?? 0n });
      if (outcome !== 'registered') continue;
      log.info({ subscription: address, plan: plan.id }, 'subscription registered from the chain');
      this.#context.deliveries.notify();
      this.#onRegistered();
    }
    await this.#leave(closed);
  }

  /**
   * Gives up old offers (1) at addresses whose live account is registered, (2) at addresses without
   * a live account if two endpoints (or the only one) confirm this, because a wrong result would
   * lose the offer's terms.
   */
  async #giveUp(awaited: readonly string[], registered: ReadonlySet<string>): Promise<void> {
    const { sql, rpc, programId } = this.#context;
    const old = await findOldOffers(sql, awaited);
    await giveUpOffers(
      sql,
      old.filter((address) => registered.has(address)),
    );
    const others = old.filter((address) => !registered.has(address));
    for (const some of chunks(others, ACCOUNTS_AT_ONCE)) {
      const answers = await rpc.getAccountsEverywhere(some, { commitment: 'finalized' });
      if (!isWitnessed(rpc, currentOf(answers).length)) continue;
      const isLive = (index: number) =>
        answers.some(
          ({ accounts }) => liveSubscriptionIn(accounts[index] ?? null, programId) !== null,
        );
      await giveUpOffers(
        sql,
        some.filter((_, index) => !isLive(index)),
      );
    }
  }

  /**
   * Removes ended subscriptions from the merchants' lists if their plan takes no new subscriptions.
   */
  async #leave(closed: readonly LiveAccount[]): Promise<void> {
    const { sql } = this.#context;
    const accounts = closed.map(({ address, account }) => ({ address, identity: account }));
    const stillWanted = new Set(await withoutKnown(sql, accounts));
    const others = accounts.filter(({ address }) => !stillWanted.has(address));
    await deleteUnregistered(
      sql,
      others.map(({ address }) => address),
    );
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
