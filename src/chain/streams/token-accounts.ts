// Follows the token accounts of subscribers one by one: a wallet can revoke or renew its approval
// or receive USDC through the token program alone, which the stream of the Subscriptions program
// does not show.
import type { Log } from '../../log.ts';
import { tokenAccountIn } from '../program/accounts.ts';
import { authorityAddress, tokenAccountAddress } from '../program/addresses.ts';
import type { TokenAccount } from '../program/layouts.ts';
import { type AccountFollower, type AccountNotification, followAccounts } from './accounts.ts';

/** A subscription whose subscriber's token account is followed. */
export interface Follows {
  readonly id: string;
  readonly subscriberWallet: string;
  /** Past-due amount in base units; null without one. */
  readonly pastDue: bigint | null;
  readonly delegationRevokedAt: Date | null;
  /** Slot of the chain state that decided the status. */
  readonly observedSlot: bigint;
  /** Null once nothing more can be collected. */
  readonly dueAt: Date | null;
}

export interface TokenAccountsOptions {
  readonly programId: string;
  readonly mint: string;
  readonly log: Log;
  readonly wsUrls: readonly string[];
  /** Maximum number of accounts. */
  readonly maxAccounts: number;
  /**
   * Called when a wallet's approval of the program is gone, replaced or renewed, or when the wallet
   * can pay a past-due amount.
   */
  readonly onChange: (wallet: string, slot: bigint) => void;
  /** Called when changes may have been missed. */
  readonly onGap: () => void;
  /** Called when a node refuses an account. */
  readonly onRefused?: () => void;
}

interface Followed {
  readonly wallet: string;
  /**
   * Past-due amounts by subscription, and whether the account could pay them as of the last
   * notification.
   */
  readonly pastDue: Map<string, { readonly amount: bigint; isPayable: boolean }>;
  /** The approval of the program was gone as of the last notification. */
  isWithdrawn: boolean;
  /**
   * Amount that the program could take as of the last notification, base units; null before the
   * first.
   */
  seen: { readonly spendable: bigint; readonly slot: bigint } | null;
}

/** Follows token accounts; connects when the first one is added. */
export class TokenAccounts {
  readonly #options: TokenAccountsOptions;
  readonly #byAddress = new Map<string, Followed>();
  readonly #follower: AccountFollower;

  constructor(options: TokenAccountsOptions) {
    this.#options = options;
    const { wsUrls: urls, maxAccounts, onGap, onRefused = () => undefined, log } = options;
    const onNotification = (notification: AccountNotification) => this.#take(notification);
    this.#follower = followAccounts({
      urls,
      maxAccounts,
      onNotification,
      onGap,
      onRefused,
      log,
    });
  }

  /**
   * Follows the token accounts of these subscriptions while there is room, past-due ones first;
   * drops those of ended subscriptions.
   */
  watch(rows: readonly Follows[]): void {
    for (const row of rows) {
      const address = tokenAccountAddress(row.subscriberWallet, this.#options.mint).address;
      const { pastDue } = row;
      if (row.dueAt === null) {
        // Another live subscription of the wallet adds the account again when it is read.
        if (this.#byAddress.delete(address)) this.#follower.drop(address);
      } else if (this.#add(address, row.subscriberWallet, pastDue !== null)) {
        const one = this.#byAddress.get(address);
        if (one === undefined) continue;
        one.isWithdrawn ||= row.delegationRevokedAt !== null;
        if (pastDue === null) one.pastDue.delete(row.id);
        else this.#owe(one, row, pastDue);
      }
    }
  }

  /** Number of accounts followed now. */
  followed(): number {
    return this.#follower.followed();
  }

  close(): void {
    this.#follower.close();
  }

  #add(address: string, wallet: string, isPastDue: boolean): boolean {
    if (
      isPastDue &&
      !this.#byAddress.has(address) &&
      this.#byAddress.size >= this.#options.maxAccounts
    )
      this.#makeRoom();
    if (!this.#follower.add(address)) {
      this.#byAddress.delete(address);
      return false;
    }
    if (!this.#byAddress.has(address))
      this.#byAddress.set(address, {
        wallet,
        pastDue: new Map(),
        isWithdrawn: false,
        seen: null,
      });
    return true;
  }

  /** Drops the first account without a past-due amount. */
  #makeRoom(): void {
    for (const [address, { pastDue }] of this.#byAddress) {
      if (pastDue.size > 0) continue;
      this.#byAddress.delete(address);
      this.#follower.drop(address);
      return;
    }
  }

  /**
   * Adds a past-due amount. A notification of the top-up may have arrived before the subscription
   * was known to be past due.
   */
  #owe(one: Followed, { id, observedSlot }: Follows, amount: bigint): void {
    if (one.pastDue.get(id)?.amount === amount) return;
    const { seen } = one;
    const isPayable = seen !== null && seen.slot > observedSlot && seen.spendable >= amount;
    one.pastDue.set(id, { amount, isPayable });
    if (isPayable) this.#options.onChange(one.wallet, seen.slot);
  }

  /**
   * Handles a notification: reports a changed approval, and once a past-due amount that became
   * payable.
   */
  #take(notification: AccountNotification): void {
    const one = this.#byAddress.get(notification.address);
    if (one === undefined) return;
    const { programId, mint } = this.#options;
    const tokens = tokensIn(notification);
    const isApproved =
      tokens !== null && tokens.delegate === authorityAddress(programId, one.wallet, mint).address;
    const spendable = isApproved ? spendableOf(tokens) : 0n;
    one.seen = { spendable, slot: notification.slot };
    let isChanged = isApproved === one.isWithdrawn;
    one.isWithdrawn = !isApproved;
    for (const due of one.pastDue.values()) {
      const isPayable = spendable >= due.amount;
      isChanged ||= isPayable && !due.isPayable;
      due.isPayable = isPayable;
    }
    if (isChanged) this.#options.onChange(one.wallet, notification.slot);
  }
}

/** Base units that the delegate can take. */
function spendableOf({ state, amount, delegatedAmount }: TokenAccount): bigint {
  if (state === 'frozen') return 0n;
  return amount < delegatedAmount ? amount : delegatedAmount;
}

function tokensIn(notification: AccountNotification) {
  try {
    return tokenAccountIn(notification);
  } catch {
    return null;
  }
}
