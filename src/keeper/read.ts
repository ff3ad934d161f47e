// Step 2 of collecting (chain.md): the accounts of many subscriptions, each account once, in batches of 100.
import { authorityIn, type ChainAccount, planIn, subscriptionIn, tokenAccountIn } from '../chain/accounts.ts';
import { authorityAddress, CLOCK_SYSVAR, tokenAccountAddress } from '../chain/addresses.ts';
import { ChainDataError, decodeClock } from '../chain/layouts.ts';
import type { ReadOptions, Rpc } from '../chain/rpc.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { ChainView } from '../domain/chain-view.ts';

/** The accounts of one subscription, or why they cannot be understood. */
export type View = ChainView | ChainDataError;

export interface Reading {
  /** The oldest slot that any account is of. */
  slot: bigint;
  /** Unix seconds. */
  now: bigint;
  of(row: HeldSubscription): View;
}

type Watched = Pick<HeldSubscription, 'subscriptionPda' | 'planPda' | 'subscriberWallet' | 'merchantWallet' | 'treasury' | 'mint'>;

/** Reads everything about these subscriptions. Throws as the RPC client does. */
export async function readViews(
  { rpc, programId }: { rpc: Rpc; programId: string },
  rows: readonly Watched[],
  options: ReadOptions = {},
): Promise<Reading> {
  const wanted = new Set([CLOCK_SYSVAR]);
  for (const row of rows) for (const address of Object.values(addressesOf(row, programId))) wanted.add(address);
  const addresses = [...wanted];
  const { slot, accounts } = await rpc.getMultipleAccounts(addresses, options);
  const found = new Map(addresses.map((address, place) => [address, accounts[place] ?? null]));
  const clock = found.get(CLOCK_SYSVAR);
  if (!clock) throw new ChainDataError('the Clock sysvar has no account');
  const now = decodeClock(clock.data).unixTimestamp;
  return { slot, now, of: (row) => viewOf(row, programId, { slot, now, found }) };
}

function addressesOf(row: Watched, programId: string) {
  return {
    subscription: row.subscriptionPda,
    plan: row.planPda,
    authority: authorityAddress(programId, row.subscriberWallet, row.mint).address,
    subscriberTokens: tokenAccountAddress(row.subscriberWallet, row.mint).address,
    merchantTokens: tokenAccountAddress(row.merchantWallet, row.mint).address,
    treasuryTokens: tokenAccountAddress(row.treasury, row.mint).address,
  };
}

function viewOf(
  row: Watched,
  programId: string,
  { slot, now, found }: { slot: bigint; now: bigint; found: Map<string, ChainAccount | null> },
): View {
  const at = addressesOf(row, programId);
  const get = (address: string) => found.get(address) ?? null;
  try {
    return {
      slot,
      now,
      subscription: subscriptionIn(get(at.subscription), programId),
      plan: planIn(get(at.plan), programId),
      authority: authorityIn(get(at.authority), programId),
      authorityAddress: at.authority,
      subscriberTokens: tokenAccountIn(get(at.subscriberTokens)),
      merchantTokens: tokenAccountIn(get(at.merchantTokens)),
      treasuryTokens: tokenAccountIn(get(at.treasuryTokens)),
    };
  } catch (error) {
    if (error instanceof ChainDataError) return error;
    throw error;
  }
}
