// The on-chain accounts that belong to one subscription, as the keeper reads them.
import { authorityAddress, tokenAccountAddress } from '../../chain/program/addresses.ts';
import type {
  AuthorityAccount,
  ChainDataError,
  PlanAccount,
  SubscriptionAccount,
  TokenAccount,
} from '../../chain/program/layouts.ts';
import type { Invoice } from '../../db/invoices/invoices.ts';
import type { SponsoredAttempt } from '../../db/offers/sponsorships.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';

/** The fields of a subscription's row from which the addresses of its accounts are derived. */
export type Addressed = Pick<
  KeeperSubscription,
  'subscriptionPda' | 'planPda' | 'subscriberWallet' | 'merchantWallet' | 'treasury' | 'mint'
>;

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

/**
 * Returns the configured treasuries other than the plan's treasury, each with the address of its
 * token account.
 */
export const backupsOf = ({ treasury, mint }: Addressed, treasuries: readonly string[]) =>
  treasuries
    .filter((wallet) => wallet !== treasury)
    .map((wallet) => ({ wallet, address: tokenAccountAddress(wallet, mint).address }));

/** The accounts that belong to one subscription, all read at the same slot. */
export interface ChainView {
  readonly slot: bigint;
  /** The cluster's clock at `slot`, in Unix seconds. */
  readonly now: bigint;
  readonly subscription: SubscriptionAccount | null;
  readonly plan: PlanAccount | null;
  readonly authority: AuthorityAccount | null;
  /**
   * The address of the SubscriptionAuthority account. It is set even if the account does not exist.
   */
  readonly authorityAddress: string;
  readonly subscriberTokens: TokenAccount | null;
  readonly merchantTokens: TokenAccount | null;
  readonly treasuryTokens: TokenAccount | null;
  /**
   * The configured treasuries other than the plan's treasury. If the plan's treasury cannot receive
   * the fee, these treasuries are tried in this order.
   */
  readonly backupTreasuries?: readonly Receiver[];
}

/** A wallet that can receive a part of a payment, with its token account. */
export interface Receiver {
  readonly wallet: string;
  readonly tokens: TokenAccount | null;
}

/** The accounts that belong to one subscription, or the error if an account cannot be decoded. */
export type ViewOrError = ChainView | ChainDataError;

/**
 * An on-chain payment (a pull): the USDC that one finalized transaction moved for one period of a
 * subscription. Times are in Unix seconds, amounts in base units.
 */
export interface Pull {
  readonly signature: string;
  /** Block time of the transaction. */
  readonly at: bigint;
  readonly periodStart: bigint;
  readonly periodEnd: bigint;
  readonly gross: bigint;
  readonly fee: bigint;
  readonly net: bigint;
  /**
   * The fee that the merchant received and owes, because no treasury could receive it, or because
   * the merchant or another puller collected the payment.
   */
  readonly feeOwed?: bigint;
  /** The invoice of its attempt. Undefined if the database has no attempt of the payment. */
  readonly invoice?: Invoice;
  /**
   * Who collected the payment: `keeper` is a keeper of this service, `foreign` is the plan's owner
   * or another puller.
   */
  readonly source: 'keeper' | 'foreign';
}

/** The amounts, the invoice and the source of the pull that `attempt` signed. */
export function signedAmounts(attempt: Omit<SponsoredAttempt, 'id' | 'periodStart'>) {
  const { amountGross: gross, platformFee: fee, amountNet: net, feeOwed, invoice } = attempt;
  return { gross, fee, net, feeOwed, invoice, source: 'keeper' as const };
}
