// Decides what to do with each subscription from a snapshot of its on-chain accounts. If the
// decision also needs past payments (pulls), the pulls are looked up in the database, then on
// chain. If an account is missing at one RPC endpoint, the other endpoints are asked too.
import { liveSubscriptionIn } from '../../chain/program/accounts.ts';
import { witnessAbsence } from '../../chain/rpc/absence.ts';
import { ACCOUNTS_AT_ONCE } from '../../chain/rpc/accounts.ts';
import { newestSlot } from '../../chain/rpc/responses.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { readAttempted } from '../../db/money/payment-attempts.ts';
import { readWalletDues } from '../../db/subscriptions/wallet-dues.ts';
import type { KeeperSubscription } from '../../db/subscriptions/work.ts';
import type { Books } from '../../domain/collecting/books.ts';
import { addressesOf } from '../../domain/collecting/chain-view.ts';
import { decide, registeredAccount, YOUNG_SECONDS } from '../../domain/collecting/decide.ts';
import type { Decision } from '../../domain/collecting/decision.ts';
import { keeperRetryAt } from '../../domain/collecting/keeper-backoff.ts';
import { isDueSoon } from '../../domain/collecting/look-ahead.ts';
import { owedBefore } from '../../domain/collecting/owed.ts';
import { type LookupResult, type LookupEntry, findInBooks } from '../../domain/collecting/pulls.ts';
import { updateOf, isLive } from '../../domain/collecting/transitions.ts';
import { chunks } from '../../each.ts';
import type { Context } from '../base/context.ts';
import { findPulls, partiesOf, type PullHistory } from '../read/pull-history.ts';
import { readSnapshot, type Snapshot } from '../read/snapshot.ts';
import type { Closed } from './close.ts';

/** What assessAll() read and decided. `lookups` has subscription ids as keys. */
export interface Assessed<Row> {
  snapshot: Snapshot;
  lookups: Map<string, LookupResult>;
  decisions: Map<Row, Decision>;
}

/**
 * Decides what to do with one subscription. If its accounts cannot be decoded, the decision is to
 * try again later, without counting a failed payment.
 */
export function assess(
  { rules }: Context,
  row: KeeperSubscription,
  snapshot: Snapshot,
  lookups: LookupResult | undefined,
): Decision {
  const view = snapshot.of(row);
  if (!(view instanceof Error)) return decide(row, view, rules, lookups);
  const update = updateOf(row);
  if (!isLive(row)) {
    update.state.dueAt = null;
    return { update };
  }
  update.state.setbacks += 1;
  update.state.dueAt = keeperRetryAt(snapshot.now, update.state.setbacks);
  return { update, alert: { reason: 'malformed', detail: view.message } };
}

/**
 * For each pull that was found on chain, sets whether the database has recorded the pull, and
 * whether the billing period of the pull is paid.
 */
export function withBooks(
  lookups: LookupResult | undefined,
  { subscriptionPda }: Pick<KeeperSubscription, 'subscriptionPda'>,
  books: Books,
): LookupResult | undefined {
  if (lookups?.pulls === undefined) return lookups;
  const pulls = lookups.pulls.map((pull) =>
    pull.recorded ? pull : books.mark(subscriptionPda, pull),
  );
  return { ...lookups, pulls };
}

/**
 * Returns the on-chain account that belongs to the subscription row. Null when that account is gone
 * or a different account now has its address. Undefined when the accounts cannot be decoded.
 */
function accountOf(row: KeeperSubscription, snapshot: Snapshot) {
  const view = snapshot.of(row);
  return view instanceof Error ? undefined : registeredAccount(row, view.subscription);
}

/**
 * Reads the accounts (at `minSlot` or later) and decides about each row. A decision may need pulls
 * that are not in the database. With `history`, these pulls are looked up on chain, which takes
 * long. Without `history`, such a decision has `needs: 'pulls'`. `closed` lists the accounts that
 * the keeper has just closed.
 */
export async function assessAll<Row extends KeeperSubscription>(
  context: Context,
  rows: readonly Row[],
  {
    closed,
    history,
    minSlot: floor = 0n,
  }: { closed?: Closed | undefined; history: boolean; minSlot?: bigint },
): Promise<Assessed<Row>> {
  const snapshot = await readSnapshot(context, rows, {
    commitment: 'confirmed',
    minSlot: newestSlot([floor, ...(closed?.values() ?? [])]),
    slotOf: ({ observedSlot }) => observedSlot,
  });
  const lookups = new Map<string, LookupResult>();
  const note = (found: readonly LookupEntry[]) => {
    for (const [id, more] of found) lookups.set(id, { ...lookups.get(id), ...more });
  };
  const decisionOf = (row: Row) => assess(context, row, snapshot, lookups.get(row.id));
  if (closed !== undefined)
    note(rows.filter(({ id }) => !closed.has(id)).map(({ id }) => [id, { closingFailed: true }]));
  context.absence.read(rows.length);
  note(await findOwed(context, rows, snapshot));
  note(await findChanged(context, rows));
  note(await findDoubted(context, rows, snapshot, closed));

  const decisions = new Map(rows.map((row) => [row, decisionOf(row)]));
  const asking = rows.filter((row) => decisions.get(row)?.needs === 'pulls');
  if (asking.length > 0) {
    note(await findInBooks(context.sql, asking, (row) => accountOf(row, snapshot) ?? null));
    const unknown = asking.filter(({ id }) => lookups.get(id)?.pulls === undefined);
    if (history && unknown.length > 0) note(await findInHistory(context, unknown, snapshot));
    for (const row of asking) decisions.set(row, decisionOf(row));
  }
  return { snapshot, lookups: lookups, decisions };
}

/**
 * Selects the rows whose next payment must be announced now. For each of these rows, finds the USDC
 * that the wallet must pay for its other subscriptions before that payment.
 */
async function findOwed(
  { sql }: Context,
  rows: readonly KeeperSubscription[],
  { now }: Snapshot,
): Promise<LookupEntry[]> {
  const announced = rows.filter((row) =>
    isDueSoon(row, row.periodHours, timeOf(now), row.noticeHours),
  );
  if (announced.length === 0) return [];
  const wallets = new Set(announced.map(({ subscriberWallet }) => subscriberWallet));
  const dues = await readWalletDues(sql, [...wallets]);
  return announced.flatMap((row): LookupEntry[] => {
    const owed = owedBefore(row, dues);
    return owed === 0n ? [] : [[row.id, { owed }]];
  });
}

/**
 * Finds the live subscriptions that a landed but unregistered change of plan replaces. Reads
 * accounts only for recent offers of such a change.
 */
async function findChanged(
  { rpc, programId }: Context,
  rows: readonly KeeperSubscription[],
): Promise<LookupEntry[]> {
  const changing = rows.filter((row) => isLive(row) && row.changeAddresses.length > 0);
  if (changing.length === 0) return [];
  const addresses = [...new Set(changing.flatMap((row) => row.changeAddresses))];
  const { accounts } = await rpc.getMultipleAccounts(addresses);
  const live = new Set(
    addresses.filter((_, index) => liveSubscriptionIn(accounts[index] ?? null, programId) !== null),
  );
  return changing
    .filter((row) => row.changeAddresses.some((address) => live.has(address)))
    .map(({ id }) => [id, { hasChanged: true }]);
}

async function findInHistory(
  context: Context,
  asking: readonly KeeperSubscription[],
  snapshot: Snapshot,
): Promise<LookupEntry[]> {
  const final = await readSnapshot(context, asking, {
    commitment: 'finalized',
    periodsOnly: () => true,
  });
  const found: LookupEntry[] = [];
  for (const row of asking) {
    const account = accountOf(row, snapshot);
    if (account === undefined) continue;
    const finalAccount = accountOf(row, final);
    if (account === null && finalAccount !== null) {
      found.push([row.id, { closingNotFinal: true }]);
      continue;
    }
    // The search begins at `since`. Usually `since` is the end of the paid time. If the account's
    // current period is paid, `since` is the start of this period. If nothing is paid yet, `since`
    // is also the start of the current period, or, if the account is gone, row.periodAnchor.
    const first =
      account?.periodStart ??
      (row.periodAnchor === null ? snapshot.now : unixSeconds(row.periodAnchor));
    const isPaid =
      account !== null && row.paidThrough !== null && row.paidThrough > timeOf(account.periodStart);
    const since = row.paidThrough === null || isPaid ? first : unixSeconds(row.paidThrough);
    const isFinal =
      account !== null &&
      finalAccount?.periodStart === account.periodStart &&
      finalAccount.amountPulled === account.amountPulled;
    const history = await findPulls(context.rpc, partiesOf(context, row), since);
    context.reportUnreadable(history?.unreadable ?? []);
    const result = await lookupResultOf(context, row, { history, isGone: account === null });
    found.push([row.id, { ...result, ...(isFinal && { pulledFinally: true }) }]);
  }
  return found;
}

/**
 * Returns what a history tells. If the account is gone and the history does not show its closing,
 * the newest transactions are missing: the result is marked as unreadable.
 */
async function lookupResultOf(
  { sql }: Context,
  { subscriptionPda }: KeeperSubscription,
  { history, isGone }: { history: PullHistory | undefined; isGone: boolean },
): Promise<LookupResult> {
  if (history === undefined) return { tooMany: true };
  const ownPulls = history.pulls.filter(({ source }) => source === 'keeper');
  const signatures = ownPulls.map(({ signature }) => signature);
  const attempted = await readAttempted(sql, subscriptionPda, signatures);
  const pulls = history.pulls.map((pull) => ({
    ...{ ...pull, recorded: false, isPeriodPaid: false },
    // When an attempt ends, its pull is recorded, whichever registration the attempt belongs to.
    ...(!attempted.has(pull.signature) && { committedAt: null }),
  }));
  const isIncomplete = history.unreadable.length > 0 || (isGone && !history.hasClosing);
  return isIncomplete ? { pulls, unreadable: true } : { pulls };
}

/**
 * If the subscription or plan account is missing, the subscription ends. If the authority is
 * missing, the delegation counts as revoked. If the subscriber's token account is missing, the
 * payment fails.
 */
const ENDING = ['subscription', 'plan', 'authority', 'subscriberTokens'] as const;
/**
 * If the merchant's token account is missing, the plan is blocked. If the treasury's token account
 * is missing, the platform fee stays owed.
 */
const RECEIVING = ['merchantTokens', 'treasuryTokens'] as const;

/**
 * Finds subscriptions with an account that is missing from the snapshot but may still exist at
 * another RPC endpoint. Leaves out accounts that the keeper has just closed.
 */
async function findDoubted(
  context: Context,
  rows: readonly KeeperSubscription[],
  snapshot: Snapshot,
  closed: Closed | undefined,
): Promise<LookupEntry[]> {
  const { programId, absence } = context;
  const missing = rows.flatMap((row) => {
    const view = snapshot.of(row);
    // No keeper has read the accounts of a new subscription yet. `decide` waits until these
    // accounts exist, so a missing account needs no check here.
    const isNew = row.periodAnchor === null && row.ageSeconds <= YOUNG_SECONDS;
    if (view instanceof Error || closed?.has(row.id) === true) return [];
    if (!isLive(row)) return [];
    return [...(isNew ? [] : ENDING), ...RECEIVING]
      .filter((name) => view[name] === null)
      .map((name) => ({ id: row.id, name, address: addressesOf(row, programId)[name] }));
  });
  const doubtedEnded = await doubtEnded(context, rows, snapshot, closed);
  if (missing.length === 0) return doubtedEnded;
  const goneAccounts = await absence.gone([...new Set(missing.map(({ address }) => address))]);
  const isEnding = (name: string) => (ENDING as readonly string[]).includes(name);
  const doubted = missing
    .filter(({ address }) => !goneAccounts.has(address))
    .map(({ id, name }): LookupEntry => [
      id,
      isEnding(name) ? { absenceDoubted: true } : { receiverDoubted: true },
    ]);
  return [...doubted, ...doubtedEnded];
}

/**
 * Finds ended subscriptions whose account may still exist at another endpoint. Every endpoint is
 * asked, but no alert is raised, because ended subscriptions often lose their accounts.
 */
async function doubtEnded(
  { rpc }: Context,
  rows: readonly KeeperSubscription[],
  snapshot: Snapshot,
  closed: Closed | undefined,
): Promise<LookupEntry[]> {
  const missing = rows.filter((row) => {
    const view = snapshot.of(row);
    if (isLive(row) || view instanceof Error || closed?.has(row.id) === true) return false;
    return view.subscription === null;
  });
  const doubted: LookupEntry[] = [];
  for (const some of chunks(missing, ACCOUNTS_AT_ONCE)) {
    const addresses = some.map(({ subscriptionPda }) => subscriptionPda);
    const { absent } = await witnessAbsence(rpc, [...new Set(addresses)]);
    for (const { id, subscriptionPda } of some)
      if (!absent.has(subscriptionPda)) doubted.push([id, { absenceDoubted: true }]);
  }
  return doubted;
}
