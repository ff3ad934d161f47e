// Reads the on-chain accounts of many subscriptions. An account that several subscriptions share is
// decoded once.
import {
  authorityIn,
  type ChainAccount,
  clockIn,
  planIn,
  subscriptionIn,
  tokenAccountIn,
} from '../../chain/program/accounts.ts';
import { CLOCK_SYSVAR } from '../../chain/program/addresses.ts';
import { ChainDataError } from '../../chain/program/layouts.ts';
import { readAccountGroups } from '../../chain/rpc/account-groups.ts';
import { readReachable } from '../../chain/rpc/reach.ts';
import type { ReadOptions } from '../../chain/rpc/rpc.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import { addressesOf, backupsOf, type ViewOrError } from '../../domain/collecting/chain-view.ts';
import type { Context } from '../base/context.ts';

export interface Snapshot {
  /** The oldest slot at which any account of the snapshot was read. */
  slot: bigint;
  /** The chain's clock in Unix seconds, as of the oldest read. */
  now: bigint;
  of(row: KeeperSubscription): ViewOrError;
}

/**
 * Whether a subscription's accounts were read at this slot or a later slot. Also true if the
 * accounts cannot be decoded, because reading them again would not help.
 */
export const isReached = (view: ViewOrError, slot: bigint) =>
  view instanceof Error || view.slot >= slot;

interface SnapshotOptions extends ReadOptions {
  /**
   * Returns the minimum slot at which the row's accounts should be read. If no endpoint has reached
   * this slot, the accounts are read at an older slot. The field `slot` of the row's view is the
   * slot at which the accounts were really read.
   */
  readonly slotOf?: (row: KeeperSubscription) => bigint;
  /**
   * If this function returns true for a row, only the subscription account and the plan account are
   * read. The row's other accounts are then null.
   */
  readonly periodsOnly?: (row: KeeperSubscription) => boolean;
}

/**
 * Reads the on-chain accounts of these subscriptions. All accounts of one subscription come from
 * one request. Throws RpcUnreachable or RpcError.
 */
export async function readSnapshot(
  { rpc, programId, treasuries }: Pick<Context, 'rpc' | 'programId' | 'treasuries'>,
  rows: readonly KeeperSubscription[],
  { periodsOnly = () => false, slotOf = () => 0n, ...options }: SnapshotOptions = {},
): Promise<Snapshot> {
  const addressLists = rows.map((row) => {
    if (periodsOnly(row)) return [CLOCK_SYSVAR, row.subscriptionPda, row.planPda];
    const receivers = backupsOf(row, treasuries).map(({ address }) => address);
    return [CLOCK_SYSVAR, ...Object.values(addressesOf(row, programId)), ...receivers];
  });
  // If there are no rows, only the Clock sysvar is read.
  const groups = await readReachable(rpc, rows.map(slotOf), options, (as) =>
    readAccountGroups(rpc, addressLists.length === 0 ? [[CLOCK_SYSVAR]] : addressLists, as),
  );
  // Subscriptions that are read in one request share plan and receiver accounts, so each account is
  // decoded once.
  const decoded = new Map<ChainAccount, unknown>();
  const once: Decoder = (account, decode) => {
    if (account === null) return decode(null);
    if (!decoded.has(account)) decoded.set(account, decode(account));
    return decoded.get(account) as ReturnType<typeof decode>;
  };
  const views = new Map<string, ViewOrError>();
  const nows: bigint[] = [];
  for (const [index, { slot, accounts }] of groups.entries()) {
    const [clock = null, ...others] = accounts;
    const now = once(clock, clockIn);
    nows.push(now);
    const row = rows[index];
    if (row === undefined) continue;
    const authority = addressLists[index]?.[AUTHORITY] ?? '';
    const backups = backupsOf(row, treasuries).map(({ wallet }) => wallet);
    views.set(keyOf(row), viewOf(others, programId, { slot, now, authority, backups, once }));
  }
  const least = (values: readonly bigint[]) =>
    values.reduce((low, one) => (one < low ? one : low), values[0] ?? 0n);
  return {
    slot: least(groups.map(({ slot }) => slot)),
    now: least(nows),
    of(row) {
      const view = views.get(keyOf(row));
      if (view === undefined) throw new Error(`${row.subscriptionPda} is not in the snapshot`);
      return view;
    },
  };
}

/**
 * Index of the authority's address in a row's list of addresses. The addresses of clock,
 * subscription and plan come first.
 */
const AUTHORITY = 3;

/**
 * Returns the key under which a row's decoded accounts are stored. The key contains the treasury,
 * because a changed treasury changes which accounts the row needs.
 */
const keyOf = ({ id, treasury }: KeeperSubscription) => `${id} ${treasury}`;

/** Decodes an account, or returns the value that was decoded from this account before. */
type Decoder = <T>(account: ChainAccount | null, decode: (account: ChainAccount | null) => T) => T;

function viewOf(
  accounts: readonly (ChainAccount | null)[],
  programId: string,
  {
    slot,
    now,
    authority: authorityAddress,
    backups,
    once,
  }: {
    slot: bigint;
    now: bigint;
    authority: string;
    backups: readonly string[];
    once: Decoder;
  },
): ViewOrError {
  const [subscription = null, plan = null, authority = null, ...tokens] = accounts;
  const [subscriberTokens = null, merchantTokens = null, treasuryTokens = null, ...others] = tokens;
  try {
    return {
      slot,
      now,
      subscription: once(subscription, (account) => subscriptionIn(account, programId)),
      plan: once(plan, (account) => planIn(account, programId)),
      authority: once(authority, (account) => authorityIn(account, programId)),
      authorityAddress,
      subscriberTokens: once(subscriberTokens, tokenAccountIn),
      merchantTokens: once(merchantTokens, tokenAccountIn),
      treasuryTokens: once(treasuryTokens, tokenAccountIn),
      backupTreasuries: backups.map((wallet, index) => ({
        wallet,
        tokens: once(others[index] ?? null, tokenAccountIn),
      })),
    };
  } catch (error) {
    if (error instanceof ChainDataError) return error;
    throw error;
  }
}
