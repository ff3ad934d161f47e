// Reads the accounts from which the API and the keeper build a sponsored transaction.
import {
  authorityIn,
  clockIn,
  planIn,
  subscriptionIn,
  tokenAccountIn,
} from '../../chain/program/accounts.ts';
import {
  authorityAddress,
  CLOCK_SYSVAR,
  subscriptionAddress,
  tokenAccountAddress,
} from '../../chain/program/addresses.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { ReadOptions, Rpc } from '../../chain/rpc/rpc.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import type { ChainView } from '../collecting/chain-view.ts';

/** The addresses of the installation that a sponsored transaction may contain. */
export interface SponsorNetwork {
  readonly programId: string;
  readonly mint: string;
  /** Wallets of keepers. The plan of a sponsored sign-up names at least one of them as a puller. */
  readonly keepers: readonly string[];
  /** Wallets that can receive the platform fee. The preferred wallet comes first. */
  readonly treasuries: readonly string[];
}

/**
 * The accounts for one wallet and one plan. Without a plan, the accounts of the wallet's approval.
 */
export interface Ground extends ChainView {
  readonly sponsorLamports: bigint;
  /** The subscription that a change of plan replaces. Null without a change of plan. */
  readonly replaced: SubscriptionAccount | null;
}

/**
 * Reads the accounts at one slot. Throws the RPC client's errors. Throws ChainDataError if an
 * account cannot be decoded.
 */
export async function readGround(
  rpc: Pick<Rpc, 'getMultipleAccounts'>,
  { programId, mint, treasuries }: SponsorNetwork,
  {
    wallet,
    plan,
    sponsor,
    replaced,
  }: {
    wallet: string;
    plan: PlanRow | null;
    sponsor: string;
    /** The subscription that a change of plan replaces. */
    replaced?: { readonly subscriptionPda: string } | undefined;
  },
  options?: ReadOptions,
): Promise<Ground> {
  const authority = authorityAddress(programId, wallet, mint).address;
  const tokensOf = (owner: string) => tokenAccountAddress(owner, mint).address;
  const backups = treasuries.filter((treasury) => treasury !== plan?.treasury);
  const addresses = [
    CLOCK_SYSVAR,
    sponsor,
    authority,
    tokensOf(wallet),
    ...(plan === null
      ? []
      : [
          plan.planPda,
          subscriptionAddress(programId, plan.planPda, wallet).address,
          tokensOf(plan.owner),
          tokensOf(plan.treasury),
          ...backups.map(tokensOf),
        ]),
    ...(replaced === undefined ? [] : [replaced.subscriptionPda]),
  ];
  const { accounts, slot } = await rpc.getMultipleAccounts(addresses, options);
  const at = (place: number) => accounts[place] ?? null;
  return {
    slot,
    now: clockIn(at(0)),
    sponsorLamports: at(1)?.lamports ?? 0n,
    replaced: replaced === undefined ? null : subscriptionIn(at(addresses.length - 1), programId),
    authority: authorityIn(at(2), programId),
    authorityAddress: authority,
    subscriberTokens: tokenAccountIn(at(3)),
    plan: planIn(at(4), programId),
    subscription: subscriptionIn(at(5), programId),
    merchantTokens: tokenAccountIn(at(6)),
    treasuryTokens: tokenAccountIn(at(7)),
    backupTreasuries: backups.map((treasury, place) => ({
      wallet: treasury,
      tokens: tokenAccountIn(at(8 + place)),
    })),
  };
}
