// The subscribers' token accounts, followed one by one. A wallet can take its approval back with the token program alone (SPL Revoke, or an approval
// of somebody else): no transaction of that names our program, and a node tells of it only who asked for that very account. A stream of all USDC
// accounts would be some thousands of notices a second for the few that matter here. So each keeper follows as many as it is allowed to
// (SOLANA_WS_ACCOUNTS); the sweep looks after the others, and whatever is missed costs nobody money: accounts are read before each payment.
import { tokenAccountIn } from '../chain/accounts.ts';
import { authorityAddress, tokenAccountAddress } from '../chain/addresses.ts';
import { followAccounts, type AccountNotice } from '../chain/subscribe-accounts.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { Context } from './context.ts';

export interface Approvals {
  /** These subscriptions are in use: their wallets' token accounts are followed as far as there is room; those of ended ones no more. */
  watch(rows: readonly HeldSubscription[]): void;
  /** How many accounts are followed right now. */
  followed(): number;
  close(): void;
}

export interface ApprovalsOptions {
  readonly wsUrls: readonly string[];
  /** Accounts at the most. */
  readonly most: number;
  /** A wallet's approval of the program is gone, is another, or is back. */
  readonly onChange: (wallet: string, slot: bigint) => void;
  /** Changes may have been missed. */
  readonly onGap: () => void;
}

/** Follows token accounts for `context`; nothing is opened before the first is to be followed. */
export function createApprovals(
  { programId, mint, log }: Pick<Context, 'programId' | 'mint' | 'log'>,
  { wsUrls, most, onChange, onGap }: ApprovalsOptions,
): Approvals {
  const walletOf = new Map<string, string>();
  /** Token accounts of which the last notice told that the program may not draw on them. */
  const withdrawn = new Set<string>();
  const follower = followAccounts({ urls: wsUrls, most, onNotice: take, onGap, log });

  function take(notice: AccountNotice): void {
    const wallet = walletOf.get(notice.address);
    if (wallet === undefined) return;
    // Payments change the account too: those are no news.
    const stands = approves(notice, wallet);
    if (stands && !withdrawn.has(notice.address)) return;
    if (stands) withdrawn.delete(notice.address);
    else withdrawn.add(notice.address);
    onChange(wallet, notice.slot);
  }

  function approves(notice: AccountNotice, wallet: string): boolean {
    try {
      return tokenAccountIn(notice)?.delegate === authorityAddress(programId, wallet, mint).address;
    } catch {
      return false;
    }
  }

  return {
    watch(rows) {
      for (const { subscriberWallet: wallet, dueAt } of rows) {
        const address = tokenAccountAddress(wallet, mint).address;
        if (dueAt !== null && follower.add(address)) walletOf.set(address, wallet);
        else if (walletOf.delete(address)) {
          // Another subscription of the wallet that is in use brings it back when it is looked at.
          withdrawn.delete(address);
          follower.drop(address);
        }
      }
    },
    followed: () => follower.followed(),
    close: () => follower.close(),
  };
}
