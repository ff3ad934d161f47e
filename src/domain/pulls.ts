// Pulls that a registration may not know: how they are read from a transaction or from our records, and what recording them changes.
import type { ConfirmedTransaction } from '../chain/answers.ts';
import { programEvents, type TransferEvent } from '../chain/events.ts';
import type { SubscriptionAccount } from '../chain/layouts.ts';
import { periodSeconds, type PullPeriod } from '../chain/period.ts';
import { timeOf, unixSeconds } from '../chain/time.ts';
import type { Sql } from '../db/connect.ts';
import { readPulled } from '../db/payments.ts';
import type { HeldSubscription } from '../db/subscriptions.ts';
import type { Pull } from './chain-view.ts';
import type { Found } from './decision.ts';
import { applyCover, applyFurther, applyPayment, type Draft } from './transitions.ts';

/** A pull, and whether an earlier registration of the same on-chain subscription has it recorded. */
export interface FoundPull extends Pull {
  readonly recorded: boolean;
}

/** After so many setbacks (half an hour, backoff.ts) a final pull that no history explains no longer holds up other payments. */
const MOST_LOOKS = 8;

/** A final pull was looked for often enough. */
export const isGivenUp = ({ setbacks }: HeldSubscription) => setbacks >= MOST_LOOKS;

/**
 * The pulls that were found; undefined while they are to be looked up. Of a history that is too long to be read none are known once it is given up:
 * anyone can make it so.
 */
export function pullsFound(
  row: HeldSubscription,
  { pulls, tooMany }: { readonly pulls?: readonly FoundPull[]; readonly tooMany?: true },
): readonly FoundPull[] | undefined {
  return tooMany === true && isGivenUp(row) ? [] : pulls;
}

/** Money was pulled in the account's period that the database does not know of: the period is not paid there, or with less. */
export function hasUnknownPull(
  state: Pick<HeldSubscription, 'paidThrough' | 'periodPulled'>,
  account: SubscriptionAccount,
): boolean {
  if (account.amountPulled === 0n) return false;
  if (!isPaid(state, account)) return true;
  // An account that an endpoint behind shows may be of an earlier period than the one that is paid.
  const paidFor =
    state.paidThrough === null ? 0n : unixSeconds(state.paidThrough) - account.periodStart;
  return paidFor <= periodSeconds(account.periodHours) && account.amountPulled > state.periodPulled;
}

/** Whether the period that the account counts is paid in the database. */
export function isPaid(
  { paidThrough }: Pick<HeldSubscription, 'paidThrough'>,
  account: SubscriptionAccount,
): boolean {
  return paidThrough !== null && unixSeconds(paidThrough) > account.periodStart;
}

/** As they happened: within a period by block time, and those of one second in the order that the chain's history has, which is newest first. */
export const oldestFirst = (pulls: readonly FoundPull[]) =>
  [...pulls].reverse().sort((a, b) => Number(a.periodStart - b.periodStart) || Number(a.at - b.at));

/** Records a pull that was found. The first pull of a period pays it; another one's later pull is recorded as a further one. */
export function recordPull(draft: Draft, pull: FoundPull, next: Date | null): void {
  const { paidThrough } = draft.state;
  if (paidThrough === null || unixSeconds(paidThrough) <= pull.periodStart) {
    if (pull.recorded) applyCover(draft, pull, next);
    else applyPayment(draft, pull, next);
  } else if (!pull.recorded && pull.source === 'foreign') applyFurther(draft, pull);
}

/** Records what was found, oldest period first. */
export function recordPulls(
  draft: Draft,
  pulls: readonly FoundPull[],
  account: SubscriptionAccount,
  period: PullPeriod,
): void {
  for (const pull of oldestFirst(pulls))
    recordPull(draft, pull, nextAfter(pull.periodStart, account, period));
  if (!isPaid(draft.state, account)) return;
  const found = pulls.reduce(
    (sum, { periodStart, gross }) => (periodStart === account.periodStart ? sum + gross : sum),
    0n,
  );
  if (found > draft.state.periodPulled) draft.state.periodPulled = found;
}

/** When the period after the one that began at `periodStart` can be collected; null when it never can. */
export function nextAfter(
  periodStart: bigint,
  account: SubscriptionAccount,
  period: PullPeriod,
): Date | null {
  return periodStart < period.start
    ? timeOf(periodStart + periodSeconds(account.periodHours))
    : startOfNext(period);
}

/** When the period after the one that runs can be collected; null when it never can. */
export function startOfNext(period: PullPeriod): Date | null {
  return period.next === null ? null : timeOf(period.next);
}

/**
 * Pulls of new registrations whose account shows no more than an earlier registration of it recorded. Those need no history, which an endpoint may not
 * keep for a whole period.
 */
export async function findInBooks(
  sql: Sql,
  rows: readonly HeldSubscription[],
  accountOf: (row: HeldSubscription) => SubscriptionAccount | null,
): Promise<Found[]> {
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
  return asked.flatMap(({ row, account }): Found[] => {
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
    }));
    const isAll = pulls.reduce((sum, { gross }) => sum + gross, 0n) === account.amountPulled;
    return isAll ? [[row.id, { pulls, pulledFinally: true }]] : [];
  });
}

export interface PullParties {
  readonly programId: string;
  /** Our wallets, former ones too: what they pulled is ours. */
  readonly keepers: readonly string[];
  /** Wallets that take the fee. */
  readonly treasuries: readonly string[];
  readonly subscriptionPda: string;
}

/** The accounts of a transfer instruction: the caller is the sixth. */
const CALLER = 5;
/** What one transaction moved under a subscription, by period, oldest first. Throws ChainDataError for an event that cannot be read. */
export function pullsIn(
  transaction: ConfirmedTransaction,
  { programId, keepers, treasuries, subscriptionPda }: PullParties,
): Pull[] {
  const periods = new Map<bigint, Pull>();
  for (const event of programEvents(transaction, programId)) {
    if (event.kind !== 'transfer' || event.subscription !== subscriptionPda) continue;
    const puller = pullerOf(event, transaction);
    const source = puller !== undefined && keepers.includes(puller) ? 'keeper' : 'foreign';
    const known = periods.get(event.periodStart);
    const gross = (known?.gross ?? 0n) + event.amount;
    // Only our own pulls carry a fee: what the owner pulls is the owner's.
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
      source,
    });
  }
  return [...periods.values()].sort((a, b) => Number(a.periodStart - b.periodStart));
}

// Programs before 0.4.0 do not name the puller; the instruction always does.
function pullerOf(
  event: TransferEvent & { instruction: number },
  transaction: ConfirmedTransaction,
): string | undefined {
  return event.puller ?? transaction.instructions[event.instruction]?.accounts[CALLER];
}
