// Reads the accounts from which the API and the keeper decide what a wallet may sign.
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
import type { PlanAccount, SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { ReadOptions, Rpc } from '../../chain/rpc/rpc.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import type { ChainView } from '../collecting/chain-view.ts';

/**
 * The accounts for one wallet and one plan. Without a plan, the accounts of the wallet's approval.
 */
export interface WalletView extends ChainView {
  readonly subscriptionPda: string | null;
  /** Balance of the wallet that pays the network fee. */
  readonly payerLamports: bigint;
  /** The subscription that a change of plan replaces. Null without a change of plan. */
  readonly replaced: SubscriptionAccount | null;
}

/** The accounts for a plan that is on chain. */
export type PlanView = WalletView & { readonly plan: PlanAccount };

/** The subscription that a change of plan replaces. The transaction first cancels it. */
export interface Replaced {
  readonly planPda: string;
  readonly subscriptionPda: string;
}

/**
 * Reads the accounts at one slot. `payer` pays the network fee; `backupTreasuries` may receive the
 * platform fee in place of the plan's treasury. Throws the RPC client's errors. Throws
 * ChainDataError if an account cannot be decoded.
 */
export async function readWalletView(
  rpc: Pick<Rpc, 'getMultipleAccounts'>,
  { programId, mint }: { readonly programId: string; readonly mint: string },
  {
    wallet,
    plan,
    payer = wallet,
    replaced,
    backupTreasuries = [],
  }: {
    wallet: string;
    plan: PlanRow | null;
    payer?: string;
    replaced?: Pick<Replaced, 'subscriptionPda'> | undefined;
    backupTreasuries?: readonly string[];
  },
  options?: ReadOptions,
): Promise<WalletView> {
  const authority = authorityAddress(programId, wallet, mint).address;
  const subscriptionPda =
    plan === null ? null : subscriptionAddress(programId, plan.planPda, wallet).address;
  const tokensOf = (owner: string) => tokenAccountAddress(owner, mint).address;
  const backups = backupTreasuries.filter((treasury) => treasury !== plan?.treasury);
  const addresses = [
    CLOCK_SYSVAR,
    payer,
    authority,
    tokensOf(wallet),
    ...(plan === null || subscriptionPda === null
      ? []
      : [
          plan.planPda,
          subscriptionPda,
          tokensOf(plan.owner),
          tokensOf(plan.treasury),
          ...backups.map(tokensOf),
        ]),
    ...(replaced === undefined ? [] : [replaced.subscriptionPda]),
  ];
  const { accounts, slot } = await rpc.getMultipleAccounts(addresses, options);
  const at = (index: number) => accounts[index] ?? null;
  return {
    slot,
    now: clockIn(at(0)),
    subscriptionPda,
    payerLamports: at(1)?.lamports ?? 0n,
    replaced: replaced === undefined ? null : subscriptionIn(at(addresses.length - 1), programId),
    authority: authorityIn(at(2), programId),
    authorityAddress: authority,
    subscriberTokens: tokenAccountIn(at(3)),
    plan: planIn(at(4), programId),
    subscription: subscriptionIn(at(5), programId),
    merchantTokens: tokenAccountIn(at(6)),
    treasuryTokens: tokenAccountIn(at(7)),
    backupTreasuries: backups.map((treasury, index) => ({
      wallet: treasury,
      tokens: tokenAccountIn(at(8 + index)),
    })),
  };
}
