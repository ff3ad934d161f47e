// What the keeper reads from the chain about one subscription.
import { authorityAddress, tokenAccountAddress } from '../chain/addresses.ts';
import type {
  AuthorityAccount,
  ChainDataError,
  PlanAccount,
  SubscriptionAccount,
  TokenAccount,
} from '../chain/layouts.ts';
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

/** The accounts of one subscription, all of one read. */
export interface ChainView {
  readonly slot: bigint;
  /** Unix seconds by the cluster's clock. */
  readonly now: bigint;
  readonly subscription: SubscriptionAccount | null;
  readonly plan: PlanAccount | null;
  readonly authority: AuthorityAccount | null;
  /** The address that `authority` has, whether it is open or not. */
  readonly authorityAddress: string;
  readonly subscriberTokens: TokenAccount | null;
  readonly merchantTokens: TokenAccount | null;
  readonly treasuryTokens: TokenAccount | null;
  /** Our other treasuries, the preferred one first: they take the fee where the plan's treasury cannot receive. */
  readonly backupTreasuries?: readonly Receiver[];
}

/** A wallet and its token account. */
export interface Receiver {
  readonly wallet: string;
  readonly tokens: TokenAccount | null;
}

/** The accounts of one subscription, or why they cannot be decoded. */
export type View = ChainView | ChainDataError;

/** Money that moved under a subscription, in one transaction that is final. Times are Unix seconds, amounts base units. */
export interface Pull {
  readonly signature: string;
  /** Block time. */
  readonly at: bigint;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly gross: bigint;
  readonly fee: bigint;
  readonly net: bigint;
  /** Of a payment of ours: the fee that was left out because no treasury could receive it. */
  readonly feeOwed?: bigint;
  /** `keeper` when ours, `foreign` when the plan's owner or another puller moved it. */
  readonly source: 'keeper' | 'foreign';
}
