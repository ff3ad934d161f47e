// Follows each subscriber's token account. A wallet can revoke or renew its approval, or receive
// USDC, through the token program alone. The stream of the Subscriptions program does not show such
// transactions.
import type { Log } from '../../log.ts';
import { tokenAccountIn } from '../program/accounts.ts';
import { authorityAddress, tokenAccountAddress } from '../program/addresses.ts';
import type { TokenAccount } from '../program/layouts.ts';
import { type AccountFollower, type AccountNotification, followAccounts } from './accounts.ts';

/** A subscription whose subscriber's token account is followed. */
export interface Follows {
  readonly id: string;
  readonly subscriberWallet: string;
  /** Amount in base units that is past due. Null when the subscription is not past due. */
  readonly pastDue: bigint | null;
  readonly delegationRevokedAt: Date | null;
  /** Slot of the chain state that decided the subscription's status. */
  readonly observedSlot: bigint;
  /** When the next payment is due. Null once nothing more can be collected. */
  readonly dueAt: Date | null;
}

export interface TokenAccountsOptions {
  readonly programId: string;
  readonly mint: string;
  readonly log: Log;
  readonly wsUrls: readonly string[];
  /** Maximum number of accounts to follow. */
  readonly maxAccounts: number;
  /**
   * Called when a wallet's approval of the program is revoked, replaced or renewed. Also called
   * when a wallet has become able to pay a past-due amount.
   */
  readonly onChange: (wallet: string, slot: bigint) => void;
  /** Called when changes of followed accounts may have been missed. */
  readonly onGap: () => void;
  /** Called when a node refuses to follow an account. */
  readonly onRefused?: () => void;
}

interface Followed {
  readonly wallet: string;
  /**
   * Past-due amounts (base units) by subscription id. `isPayable` is true when the account could
   * pay the amount as of the last notification.
   */
  readonly pastDue: Map<
    string,
    { readonly amount: bigint; isPayable: boolean; observedSlot: bigint }
  >;
  /**
   * True if the last notification, or a later row given to `watch`, shows that the program may no
   * longer pull from the token account.
   */
  isWithdrawn: boolean;
  /**
   * The amount (base units) that the program could pull as of the last notification. Null before
   * the first notification.
   */
  seen: { readonly spendable: bigint; readonly slot: bigint } | null;
}

/** Follows the token accounts of subscribers. Connects when the first account is added. */
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
   * Follows the token accounts of these subscriptions while there is room. An account with a
   * past-due amount replaces an account without one. Accounts of ended subscriptions are dropped.
   */
  watch(rows: readonly Follows[]): void {
    for (const row of rows) {
      const address = tokenAccountAddress(row.subscriberWallet, this.#options.mint).address;
      const { pastDue } = row;
      if (row.dueAt === null) {
        // The wallet may have another live subscription. When `watch` gets the row of that
        // subscription, `watch` adds the token account again.
        if (this.#byAddress.delete(address)) this.#follower.drop(address);
      } else if (this.#add(address, row.subscriberWallet, pastDue !== null)) {
        const followed = this.#byAddress.get(address);
        if (followed === undefined) continue;
        followed.isWithdrawn ||= row.delegationRevokedAt !== null;
        // Another loop may have read the row before the payment failed, and gives it afterwards.
        if (row.observedSlot < (followed.pastDue.get(row.id)?.observedSlot ?? 0n)) continue;
        if (pastDue === null) followed.pastDue.delete(row.id);
        else this.#owe(followed, row, pastDue);
      }
    }
  }

  /** Number of accounts that are followed now. */
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

  /** Drops the first account that has no past-due amount. */
  #makeRoom(): void {
    for (const [address, { pastDue }] of this.#byAddress) {
      if (pastDue.size > 0) continue;
      this.#byAddress.delete(address);
      this.#follower.drop(address);
      return;
    }
  }

  /**
   * Records a past-due amount of a subscription. If a notification after `observedSlot` already
   * showed enough USDC, the amount is payable, and `onChange` is called at once.
   */
  #owe(followed: Followed, { id, observedSlot }: Follows, amount: bigint): void {
    const known = followed.pastDue.get(id);
    if (known?.amount === amount) {
      known.observedSlot = observedSlot;
      return;
    }
    const { seen } = followed;
    const isPayable = seen !== null && seen.slot > observedSlot && seen.spendable >= amount;
    followed.pastDue.set(id, { amount, isPayable, observedSlot });
    if (isPayable) this.#options.onChange(followed.wallet, seen.slot);
  }

  /**
   * Handles a notification about a token account. Calls `onChange` when the approval changed or
   * when a past-due amount became payable.
   */
  #take(notification: AccountNotification): void {
    const followed = this.#byAddress.get(notification.address);
    if (followed === undefined) return;
    const { programId, mint } = this.#options;
    const tokens = tokensIn(notification);
    const isApproved =
      tokens !== null &&
      tokens.delegate === authorityAddress(programId, followed.wallet, mint).address;
    const spendable = isApproved ? spendableOf(tokens) : 0n;
    followed.seen = { spendable, slot: notification.slot };
    let isChanged = isApproved === followed.isWithdrawn;
    followed.isWithdrawn = !isApproved;
    for (const due of followed.pastDue.values()) {
      const isPayable = spendable >= due.amount;
      isChanged ||= isPayable && !due.isPayable;
      due.isPayable = isPayable;
    }
    if (isChanged) this.#options.onChange(followed.wallet, notification.slot);
  }
}

/** Returns the number of base units that the delegate can move out of the account. */
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
