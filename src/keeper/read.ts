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

/**
 * Reads everything about these subscriptions; with `periodsOnly` no more than subscription and plan, and the other accounts look absent. Throws as
 * the RPC client does.
 */
export async function readViews(
  { rpc, programId }: { rpc: Rpc; programId: string },
  rows: readonly Watched[],
  { periodsOnly = false, ...options }: ReadOptions & { periodsOnly?: boolean } = {},
): Promise<Reading> {
  const wanted = new Set([CLOCK_SYSVAR]);
  for (const row of rows) {
    const accounts = periodsOnly ? [row.subscriptionPda, row.planPda] : Object.values(addressesOf(row, programId));
    for (const address of accounts) wanted.add(address);
  }
  const addresses = [...wanted];
  const { slot, accounts } = await rpc.getMultipleAccounts(addresses, options);
  const found = new Map(addresses.map((address, place) => [address, accounts[place] ?? null]));
  const clock = found.get(CLOCK_SYSVAR);
  if (!clock) throw new ChainDataError('the Clock sysvar has no account');
  const now = decodeClock(clock.data).unixTimestamp;
  // Rows are judged several times and share plans and receivers: each account is decoded once.
  const decoded = new Map<string, unknown>();
  const once: Decoder = (address, decode) => {
    if (!decoded.has(address)) decoded.set(address, decode(found.get(address) ?? null));
    return decoded.get(address) as ReturnType<typeof decode>;
  };
  const views = new Map<Watched, View>();
  return {
    slot,
    now,
    of(row) {
      const view = views.get(row) ?? viewOf(row, programId, { slot, now, once });
      views.set(row, view);
      return view;
    },
  };
}

/** Decodes the account at an address, or gives what that gave before. */
type Decoder = <T>(address: string, decode: (account: ChainAccount | null) => T) => T;

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

function viewOf(row: Watched, programId: string, { slot, now, once }: { slot: bigint; now: bigint; once: Decoder }): View {
  const at = addressesOf(row, programId);
  try {
    return {
      slot,
      now,
      subscription: once(at.subscription, (account) => subscriptionIn(account, programId)),
      plan: once(at.plan, (account) => planIn(account, programId)),
      authority: once(at.authority, (account) => authorityIn(account, programId)),
      authorityAddress: at.authority,
      subscriberTokens: once(at.subscriberTokens, tokenAccountIn),
      merchantTokens: once(at.merchantTokens, tokenAccountIn),
      treasuryTokens: once(at.treasuryTokens, tokenAccountIn),
    };
  } catch (error) {
    if (error instanceof ChainDataError) return error;
    throw error;
  }
}
