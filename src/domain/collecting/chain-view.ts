// The on-chain accounts of one subscription, as the keeper reads them.
import { authorityAddress, tokenAccountAddress } from '../../chain/program/addresses.ts';
import type {
  AuthorityAccount,
  ChainDataError,
  PlanAccount,
  SubscriptionAccount,
  TokenAccount,
} from '../../chain/program/layouts.ts';
import type { KeeperSubscription } from '../../db/subscription-work.ts';

/** The fields of a row from which the addresses of its accounts are derived. */
export type Addressed = Pick<
  KeeperSubscription,
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

/** The configured treasuries other than the plan's, with their token accounts. */
export const backupsOf = ({ treasury, mint }: Addressed, treasuries: readonly string[]) =>
  treasuries
    .filter((wallet) => wallet !== treasury)
    .map((wallet) => ({ wallet, address: tokenAccountAddress(wallet, mint).address }));

/** The accounts of one subscription, from one read. */
export interface ChainView {
  readonly slot: bigint;
  /** Unix seconds by the cluster's clock. */
  readonly now: bigint;
  readonly subscription: SubscriptionAccount | null;
  readonly plan: PlanAccount | null;
  readonly authority: AuthorityAccount | null;
  /** The address of the authority, whether or not the account exists. */
  readonly authorityAddress: string;
  readonly subscriberTokens: TokenAccount | null;
  readonly merchantTokens: TokenAccount | null;
  readonly treasuryTokens: TokenAccount | null;
  /**
   * Other treasuries, the preferred treasury first. One of them receives the fee when the plan's
   * treasury cannot.
   */
  readonly backupTreasuries?: readonly Receiver[];
}

/** A wallet and its token account. */
export interface Receiver {
  readonly wallet: string;
  readonly tokens: TokenAccount | null;
}

/** The accounts of one subscription, or why they cannot be decoded. */
export type View = ChainView | ChainDataError;

/**
 * The money that one finalized transaction moved under a subscription. Times are in Unix seconds,
 * amounts in base units.
 */
export interface Pull {
  readonly signature: string;
  /** Block time. */
  readonly at: bigint;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly gross: bigint;
  readonly fee: bigint;
  readonly net: bigint;
  /**
   * The fee that was not collected, because no treasury could receive it or another puller pulled.
   */
  readonly feeOwed?: bigint;
  /**
   * `keeper`: pulled by a keeper of this service. `foreign`: pulled by the plan's owner or another
   * puller.
   */
  readonly source: 'keeper' | 'foreign';
}
