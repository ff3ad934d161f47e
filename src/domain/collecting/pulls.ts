// Reads pulls from transactions and records pulls that the database lacks.
import { programEvents, type TransferEvent } from '../../chain/program/events.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds, type PullPeriod } from '../../chain/program/period.ts';
import type { ConfirmedTransaction } from '../../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { readPulled } from '../../db/payments.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import type { KeeperSubscription } from '../../db/subscription-work.ts';
import { split } from '../money.ts';
import type { Pull } from './chain-view.ts';
import { applyCover, applyFurther, applyPayment, type SubscriptionUpdate } from './transitions.ts';

/** A pull, and whether it and its period are recorded (books.ts). */
export interface KnownPull extends Pull {
  /** Whether this or an earlier registration of the same address has recorded the pull. */
  readonly recorded: boolean;
  /** Whether a recorded pull (this pull or another one) paid the period of this pull. */
  readonly isPeriodPaid: boolean;
  /** Whether the recorded payment was refunded. Only known of payments read from the books. */
  readonly isRefunded?: boolean;
}

/**
 * Number of keeper failures (half an hour, see keeper-backoff.ts) after which a finalized pull that
 * no history contains no longer delays other payments.
 */
const MAX_FAILED_LOOKUPS = 8;

/** Whether the keeper has given up looking for a finalized pull that no history contains. */
export const isGivenUp = ({ setbacks }: KeeperSubscription) => setbacks >= MAX_FAILED_LOOKUPS;

/**
 * What is known about the pulls under a subscription, from the database and the account's history.
 */
export type PullLookup =
  /** The pulls have not been looked up yet. */
  | { readonly kind: 'needed' }
  /**
   * The closing of the account is not finalized, so the last pulls before the closing may not be
   * finalized either.
   */
  | { readonly kind: 'not_final' }
  /** The history is too long to read, and the keeper has not given up yet. */
  | { readonly kind: 'too_long' }
  | {
      readonly kind: 'known';
      readonly pulls: readonly KnownPull[];
      /** Whether all transactions of the history could be read. */
      readonly isComplete: boolean;
      /** Whether all pulls that the account counts are finalized or recorded. */
      readonly isFinal: boolean;
    };

/**
 * Derives what is known about the row's pulls from a lookup result. A history that is too long to
 * read counts as empty once the keeper has given up, because anyone can make a history long.
 */
export function pullLookup(row: KeeperSubscription, result: LookupResult): PullLookup {
  const { pulls, tooMany, unreadable, pulledFinally, closingNotFinal } = result;
  if (closingNotFinal === true) return { kind: 'not_final' };
  if (tooMany === true && !isGivenUp(row)) return { kind: 'too_long' };
  const known = tooMany === true ? [] : pulls;
  if (known === undefined) return { kind: 'needed' };
  const [isComplete, isFinal] = [unreadable !== true, pulledFinally === true];
  return { kind: 'known', pulls: known, isComplete, isFinal };
}

/**
 * Whether the account counts a pull that is not recorded. This is the case when the database has
 * the account's period as unpaid, or as paid with a smaller amount.
 */
export function hasUnknownPull(
  state: Pick<KeeperSubscription, 'paidThrough' | 'periodPulled'>,
  account: SubscriptionAccount,
): boolean {
  if (account.amountPulled === 0n) return false;
  if (!isPaid(state, account)) return true;
  // If the database has a later period as paid, a lagging RPC endpoint returned this account.
  const paidFor =
    state.paidThrough === null ? 0n : unixSeconds(state.paidThrough) - account.periodStart;
  return paidFor <= periodSeconds(account.periodHours) && account.amountPulled > state.periodPulled;
}

/** Whether the account's period is paid in the database. */
export function isPaid(
  { paidThrough }: Pick<KeeperSubscription, 'paidThrough'>,
  account: SubscriptionAccount,
): boolean {
  return paidThrough !== null && unixSeconds(paidThrough) > account.periodStart;
}

/**
 * Sorts pulls by period and block time. Pulls of the same second keep their order in the chain's
 * history, which lists the newest first.
 */
export const oldestFirst = (pulls: readonly KnownPull[]) =>
  [...pulls].reverse().sort((a, b) => Number(a.periodStart - b.periodStart) || Number(a.at - b.at));

/**
 * Records a found pull of any puller. The first pull of a period pays the period, even if nothing
 * had to be collected for it. Each other pull of that period is recorded as `further`.
 */
export function recordPull(update: SubscriptionUpdate, pull: KnownPull, next: Date | null): void {
  const { paidThrough } = update.state;
  const isCovered = paidThrough !== null && unixSeconds(paidThrough) > pull.periodStart;
  const isPaidHere = update.payments.some(
    ({ status, periodStart }) =>
      status === 'succeeded' && unixSeconds(periodStart) === pull.periodStart,
  );
  if (pull.recorded || pull.isPeriodPaid || isPaidHere) {
    if (!isCovered) applyCover(update, pull, next);
    if (!pull.recorded) applyFurther(update, pull);
  } else applyPayment(update, pull, next);
}

/** Records found pulls, oldest period first. */
export function recordPulls(
  update: SubscriptionUpdate,
  pulls: readonly KnownPull[],
  account: SubscriptionAccount,
  period: PullPeriod,
): void {
  for (const pull of oldestFirst(pulls))
    recordPull(update, pull, nextAfter(pull.periodStart, account, period));
  if (!isPaid(update.state, account)) return;
  const found = pulls.reduce(
    (sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum),
    0n,
  );
  if (found > update.state.periodPulled) update.state.periodPulled = found;
}

/**
 * Start of the first collectable period after the one that starts at `periodStart`; null when no
 * further period can be collected.
 */
export function nextAfter(
  periodStart: bigint,
  account: SubscriptionAccount,
  period: PullPeriod,
): Date | null {
  return periodStart < period.start
    ? timeOf(periodStart + periodSeconds(account.periodHours))
    : startOfNext(period);
}

/** Start of the next collectable period; null when no further period can be collected. */
export function startOfNext(period: PullPeriod): Date | null {
  return period.next === null ? null : timeOf(period.next);
}

/**
 * Finds the pulls of new registrations in the database. A row gets a result only if an earlier
 * registration has recorded the full amount that the account counts. Such rows need no RPC history,
 * which an endpoint may not keep for a whole period.
 */
export async function findInBooks(
  sql: Sql,
  rows: readonly KeeperSubscription[],
  accountOf: (row: KeeperSubscription) => SubscriptionAccount | null,
): Promise<LookupEntry[]> {
  const asked = rows.flatMap((row) => {
    const account = accountOf(row);
    return row.paidThrough !== null || account === null
      ? []
      : [{ row, account, periodStart: timeOf(account.periodStart) }];
  });
  if (asked.length === 0) return [];
  const recorded = await readPulled(
    sql,
    asked.map(({ row, periodStart }) => ({ subscriptionPda: row.subscriptionPda, periodStart })),
  );
  return asked.flatMap(({ row, account }): LookupEntry[] => {
    const own = recorded.filter(({ subscriptionPda }) => subscriptionPda === row.subscriptionPda);
    const pulls = own.map((one) => ({
      signature: one.txSignature,
      at: unixSeconds(one.occurredAt),
      periodStart: unixSeconds(one.periodStart),
      periodEnd: unixSeconds(one.periodEnd),
      gross: one.amountGross,
      fee: one.platformFee,
      net: one.amountNet,
      source: one.source,
      recorded: true,
      isPeriodPaid: true,
      isRefunded: one.amountNet > 0n && one.amountRefunded >= one.amountNet,
    }));
    const isAll = pulls.reduce((sum, { gross }) => sum + gross, 0n) === account.amountPulled;
    return isAll ? [[row.id, { pulls, pulledFinally: true }]] : [];
  });
}

export interface PullParties {
  readonly programId: string;
  /** Keeper wallets, including former ones. Their pulls count as pulls by the keeper. */
  readonly keepers: readonly string[];
  /** Wallets that can receive the platform fee. */
  readonly treasuries: readonly string[];
  readonly subscriptionPda: string;
  /**
   * The fee that is owed for a pull by another puller, in basis points of its gross amount. Absent
   * where owed fees do not matter.
   */
  readonly feeBps?: number;
}

/** Index of the caller among the accounts of a transfer instruction. */
const CALLER = 5;

/**
 * Returns a subscription's pulls in one transaction: one pull per period, oldest period first.
 * Throws ChainDataError for an event that cannot be decoded.
 */
export function pullsIn(
  transaction: ConfirmedTransaction,
  { programId, keepers, treasuries, subscriptionPda, feeBps = 0 }: PullParties,
): Pull[] {
  const periods = new Map<bigint, Pull>();
  for (const event of programEvents(transaction, programId)) {
    if (event.kind !== 'transfer' || event.subscription !== subscriptionPda) continue;
    const puller = pullerOf(event, transaction);
    const source = puller !== undefined && keepers.includes(puller) ? 'keeper' : 'foreign';
    const known = periods.get(event.periodStart);
    const gross = (known?.gross ?? 0n) + event.amount;
    // Only a keeper's pull contains a fee. The whole amount of a foreign pull belongs to the
    // merchant.
    const fee =
      (known?.fee ?? 0n) +
      (source === 'keeper' && treasuries.includes(event.receiver) ? event.amount : 0n);
    periods.set(event.periodStart, {
      signature: transaction.signature,
      at: transaction.blockTime ?? event.periodStart,
      periodStart: event.periodStart,
      periodEnd: event.periodEnd,
      gross,
      fee,
      net: gross - fee,
      ...(source === 'foreign' && { feeOwed: split(gross, feeBps).fee }),
      source,
    });
  }
  return [...periods.values()].sort((a, b) => Number(a.periodStart - b.periodStart));
}

// Events of programs before 0.4.0 do not name the puller; the instruction always does.
function pullerOf(
  event: TransferEvent & { instruction: number },
  transaction: ConfirmedTransaction,
): string | undefined {
  return event.puller ?? transaction.instructions[event.instruction]?.accounts[CALLER];
}

/** Results of costly RPC look-ups that an earlier decision asked for. */
export interface LookupResult {
  /** Pulls on chain that may not be recorded. */
  readonly pulls?: readonly KnownPull[];
  /** The account's history was too long to read, so its pulls are still unknown. */
  readonly tooMany?: true;
  /**
   * Some transactions of the account cannot be read. Each of them may contain a pull that `pulls`
   * lacks.
   */
  readonly unreadable?: true;
  /**
   * All pulls that the account counts are finalized or recorded. If the history still lacks a pull
   * now, it may never contain this pull.
   */
  readonly pulledFinally?: true;
  /**
   * The closing of the account is not finalized. Pulls before the closing may not be finalized
   * either, and cannot be read yet.
   */
  readonly closingNotFinal?: true;
  /**
   * An account of the subscription is missing at one RPC endpoint, which is not enough to treat the
   * account as gone.
   */
  readonly absenceDoubted?: true;
  /**
   * The token account of the merchant or the treasury is missing at one RPC endpoint, which is not
   * enough to treat the account as gone.
   */
  readonly receiverDoubted?: true;
  /** What the wallet owes to other plans before the next payment (owed.ts); 0 when missing. */
  readonly owed?: bigint;
  /** The keeper tried to close the on-chain subscription and failed. */
  readonly closingFailed?: true;
}

/** The lookup results of one subscription. */
export type LookupEntry = readonly [id: string, result: LookupResult];
