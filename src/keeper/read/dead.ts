// Finds signed attempts that can never land. chain/rpc/landing.ts determines the outcome of each
// transaction; this file decides how many endpoints have to agree about a payment.
import { BLOCKHASH_LIFE } from '../../chain/rpc/blocks.ts';
import { lifetimeKey, witnessExpiry } from '../../chain/rpc/expiry.ts';
import { judgeLandings, type Landing, type Sought } from '../../chain/rpc/landing.ts';
import { newestSlot, type SignatureStatus } from '../../chain/rpc/responses.ts';
import type { Lifetime, Rpc } from '../../chain/rpc/rpc.ts';
import { blockhashOf } from '../../chain/transactions/collection.ts';
import type { AttemptRow } from '../../db/money/payment-attempts.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';

/** A signed transaction as stored. */
export type SignedWith = Pick<
  AttemptRow,
  'signature' | 'transaction' | 'lastValidBlockHeight' | 'blockhashSlot'
>;

const lifetimeOf = ({
  transaction,
  lastValidBlockHeight,
  blockhashSlot,
}: SignedWith): Lifetime => ({
  blockhash: blockhashOf(transaction),
  lastValidBlockHeight,
  slot: blockhashSlot,
});

/**
 * Returns the signatures of the attempts whose blockhash has expired at one endpoint and is valid
 * at none. This only selects candidates for findDead() and ends no attempt. Throws RpcUnreachable
 * or RpcError.
 */
export async function findExpired(
  rpc: Pick<Rpc, 'getLifetimesEverywhere'>,
  attempts: readonly SignedWith[],
): Promise<ReadonlySet<string>> {
  const ends = await witnessExpiry(rpc, attempts.map(lifetimeOf));
  const expired = attempts.filter((attempt) => ends.has(lifetimeKey(lifetimeOf(attempt))));
  return new Set(expired.map(({ signature }) => signature));
}

/**
 * Returns a stored transaction in the form that landing.ts checks. If an older release did not
 * store the slot of its blockhash, histories must reach back to its block height instead, which is
 * lower than the slot.
 */
export const soughtOf = (signed: SignedWith, needsTwo: boolean): Sought => ({
  signature: signed.signature,
  lifetime: lifetimeOf(signed),
  needsTwo,
  since: newestSlot([signed.lastValidBlockHeight - BLOCKHASH_LIFE]),
});

/** A signed payment, with the plan's amount per period. */
interface Mortal {
  readonly attempt: SignedWith & Pick<AttemptRow, 'amountGross'>;
  readonly row: Pick<KeeperSubscription, 'amount'>;
}

/**
 * Whether the program may allow another payment beside this one in one period. True for every
 * payment below the plan's whole amount, because the price may fall before the next attempt.
 */
export const fitsBeside = (gross: bigint, { amount }: Mortal['row']): boolean => gross < amount;

/** The result of checking a batch of attempts whose transactions no endpoint had reported. */
export interface Dead<T> {
  /** Attempts that can never land. */
  readonly dead: readonly T[];
  /**
   * Attempts that no endpoint has, but whose histories do not prove that they did not land. Two
   * endpoints (or the only one) have responded.
   */
  readonly unproven: readonly T[];
  /** The newest finalized slot at which a blockhash of the batch had expired. */
  readonly slot: bigint;
  /** The outcome that was determined for each attempt. */
  readonly landings: ReadonlyMap<T, Landing>;
  /** Statuses of the transactions that any endpoint has, by signature. */
  readonly seen: ReadonlyMap<string, SignatureStatus>;
}

/**
 * Determines the outcome of attempts for which no endpoint has shown a status so far. Takes at most
 * 256 transactions. Throws RpcUnreachable or RpcError.
 */
export async function findDead<T extends Mortal>(
  rpc: Pick<Rpc, 'getLifetimesEverywhere' | 'getSignatureStatuses' | 'endpoints'>,
  attempts: readonly T[],
): Promise<Dead<T>> {
  const sought = attempts.map((one) => ({
    one,
    ...soughtOf(one.attempt, fitsBeside(one.attempt.amountGross, one.row)),
  }));
  const judged = [...(await judgeLandings(rpc, sought))];
  const statusEntries = judged.flatMap(
    ([{ signature }, { status }]): [string, SignatureStatus][] =>
      status === null ? [] : [[signature, status]],
  );
  const transactionsWhere = (holds: (landing: Landing) => boolean) =>
    judged.filter(([, landing]) => holds(landing)).map(([{ one }]) => one);
  return {
    dead: transactionsWhere(({ verdict }) => verdict === 'dead'),
    unproven: transactionsWhere(({ verdict, isAnswered }) => verdict === 'unknown' && isAnswered),
    slot: newestSlot(judged.map(([, { expiredAt }]) => expiredAt ?? 0n)),
    landings: new Map(judged.map(([{ one }, landing]) => [one, landing])),
    seen: new Map(statusEntries),
  };
}
