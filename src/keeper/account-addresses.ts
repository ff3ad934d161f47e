// Which accounts are read for a subscription.
import { authorityAddress, tokenAccountAddress } from '../chain/addresses.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';

/** What the addresses follow from. */
export type Addressed = Pick<
  HeldSubscription,
  'subscriptionPda' | 'planPda' | 'subscriberWallet' | 'merchantWallet' | 'treasury' | 'mint'
>;

/** The addresses of a subscription's accounts. */
export function addressesOf(row: Addressed, programId: string) {
  return {
    subscription: row.subscriptionPda,
    plan: row.planPda,
    authority: authorityAddress(programId, row.subscriberWallet, row.mint).address,
    subscriberTokens: tokenAccountAddress(row.subscriberWallet, row.mint).address,
    merchantTokens: tokenAccountAddress(row.merchantWallet, row.mint).address,
    treasuryTokens: tokenAccountAddress(row.treasury, row.mint).address,
  };
}

/** Our treasuries beside the one of the plan's record, with their token accounts. */
export const backupsOf = ({ treasury, mint }: Addressed, treasuries: readonly string[]) =>
  treasuries
    .filter((wallet) => wallet !== treasury)
    .map((wallet) => ({ wallet, address: tokenAccountAddress(wallet, mint).address }));
