// Settles sponsored transactions whose outcome is final. After a sign-up has landed, one database
// transaction registers the subscription and stores the payment and the events subscription_created
// and payment_success.
import { describeTransactionError } from '../../chain/program/errors.ts';
import { ChainDataError, type SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { createBlockTimes } from '../../chain/rpc/block-times.ts';
import { readListed } from '../../chain/rpc/transactions.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { resolveAttempts, type Resolution } from '../../db/money/payment-attempts.ts';
import {
  endSponsorship,
  lockOpenSponsorship,
  type OpenSponsorship,
  type SponsoredAttempt,
} from '../../db/offers/sponsorships.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { readReplaced } from '../../db/subscriptions/plan-changes.ts';
import { findPlan, type PlanRow } from '../../db/subscriptions/plans.ts';
import { makeDue } from '../../db/subscriptions/work.ts';
import { signedAmounts } from '../../domain/collecting/chain-view.ts';
import { isLive, type SubscriptionUpdate } from '../../domain/collecting/transitions.ts';
import {
  type Landed,
  openedBy,
  type Opened,
  readLandedAccounts,
  storeLanded,
} from '../../domain/offers/landed.ts';
import type { Context } from '../base/context.ts';
import { partiesOf } from '../read/pull-history.ts';
import { FORK_SECONDS } from '../track/attempt-outcome.ts';
import { report } from '../track/reports.ts';

/**
 * Settles a transaction that failed on chain. The sponsor paid the fee, and nothing else changed.
 */
export async function settleFailed(
  context: Context,
  sponsorship: OpenSponsorship,
  err: unknown,
): Promise<void> {
  const reason = describeTransactionError(err);
  context.log.warn(
    { offer: sponsorship.offerId, signature: sponsorship.signature, reason },
    'sponsored transaction failed on chain',
  );
  await end(context, sponsorship, 'failed', reason);
}

/**
 * Settles a transaction with an expired blockhash that every endpoint lacks at `slot`. The
 * transaction has landed nevertheless (1) if its subscription account exists and the sponsor paid
 * the account's rent, because no other transaction opens this account with the sponsor's rent while
 * the attempt is open, or (2) if the history of the account's address lists it, because the wallet
 * may have closed the account. Resolves with true if it has landed.
 */
export async function settleExpired(
  context: Context,
  sponsorship: OpenSponsorship,
  slot: bigint,
): Promise<boolean> {
  const { attempt, planId, subscriptionPda } = sponsorship;
  if (attempt !== null && planId !== null && subscriptionPda !== null) {
    const plan = await findPlan(context.sql, planId);
    const view = plan && (await readLandedAccounts(context, plan, subscriptionPda, slot));
    const account = view?.subscription ?? null;
    if (account !== null && isOpenedBy(sponsorship, attempt, account)) {
      await settleLanded(context, sponsorship, { slot: null, least: slot });
      return true;
    }
    const listed = await listedSlot(context, sponsorship.signature, subscriptionPda);
    if (listed !== undefined) {
      await settleLanded(context, sponsorship, { slot: listed });
      return true;
    }
  }
  await end(context, sponsorship, 'expired', null);
  return false;
}

/**
 * Returns the slot of the transaction if an endpoint's history of the address lists it as
 * successful. The newest 1000 entries are read.
 */
async function listedSlot(
  { rpc }: Context,
  signature: string,
  address: string,
): Promise<bigint | undefined> {
  const options = { commitment: 'finalized', everywhere: true } as const;
  const history = await rpc.getSignaturesForAddress(address, options);
  return history.find((one) => one.signature === signature && one.err === null)?.slot;
}

/**
 * Whether the attempt's transaction opened the account: the sponsor paid its rent, and its period
 * starts at most one minute before the period start that the attempt recorded.
 */
const isOpenedBy = (
  { sponsor }: OpenSponsorship,
  { periodStart }: SponsoredAttempt,
  account: SubscriptionAccount,
) => account.payer === sponsor && account.periodStart >= unixSeconds(periodStart) - FORK_SECONDS;

async function end(
  { sql }: Context,
  sponsorship: OpenSponsorship,
  state: 'landed' | 'failed' | 'expired',
  reason: string | null,
): Promise<void> {
  await sql.begin(async (tx) => {
    if (!(await lockOpenSponsorship(tx, sponsorship.offerId))) return;
    if (sponsorship.attempt !== null) {
      const error = reason ?? (state === 'expired' ? 'never landed' : null);
      await resolveAttempts(tx, [{ id: sponsorship.attempt.id, state, error }]);
    }
    await endSponsorship(tx, sponsorship, { state, reason });
  });
}

/**
 * Settles a transaction that is finalized on chain without an error. Throws if the chain or the
 * database is unreachable. A later turn then settles the transaction.
 */
export async function settleLanded(
  context: Context,
  sponsorship: OpenSponsorship,
  { slot, least = 0n }: { slot: bigint | null; least?: bigint },
): Promise<void> {
  const { attempt, planId, subscriptionPda } = sponsorship;
  if (attempt === null || planId === null || subscriptionPda === null) {
    await end(context, sponsorship, 'landed', null);
    return;
  }
  const plan = await findPlan(context.sql, planId);
  if (plan === undefined) throw new Error(`there is no plan ${planId}`);
  const { replaces } = sponsorship;
  const replaced = replaces === null ? undefined : await readReplaced(context.sql, replaces);
  const view = await readLandedAccounts(context, plan, subscriptionPda, slot ?? least, replaced);
  const { subscription } = view;
  // If the wallet has closed the account and opened it again, the new account does not belong to
  // this sign-up.
  const isGone = subscription === null || !isOpenedBy(sponsorship, attempt, subscription);
  const opened = isGone
    ? await readOpened(context, sponsorship, attempt, plan)
    : await openedIn(context, sponsorship, attempt, { account: subscription, slot });
  if (isGone)
    context.log.warn(
      { offer: sponsorship.offerId, signature: sponsorship.signature },
      'sponsored subscription landed and is gone: it is registered as ended',
    );
  else if (view.replacedRuns)
    context.log.warn(
      { offer: sponsorship.offerId, subscription: replaces, account: replaced?.subscriptionPda },
      'replaced subscription runs on chain: its wallet has resumed it',
    );
  const resolution = { id: attempt.id, state: 'landed', error: null } as const;
  const landed = { ...opened, signUp: sponsorship, plan, replaced, view, isGone, resolution };
  const update = await context.sql.begin((tx) => register(tx, sponsorship, landed));
  context.deliveries.notify();
  if (update === undefined) return;
  report(context, update, undefined, sponsorship.signature);
  if (isLive(update.state)) context.onRead([{ ...update.row, ...update.state }]);
}

/**
 * Reads the account that the transaction has opened, and its payment, from the transaction itself.
 * Throws ChainDataError while no endpoint returns it in readable form; a later turn reads it again.
 */
async function readOpened(
  context: Context,
  { signature, subscriptionPda }: OpenSponsorship,
  attempt: SponsoredAttempt,
  plan: PlanRow,
): Promise<Opened> {
  const found = await readListed(context.rpc, signature);
  if ('unreadable' in found) {
    context.reportUnreadable([found]);
    context.metrics.alerts.inc({ reason: 'sponsored_unregistered' });
    throw new ChainDataError(`the sponsored transaction ${signature} is ${found.unreadable}`);
  }
  const row = { ...plan, subscriptionPda: subscriptionPda ?? '', feeBps: null };
  return openedBy(found, partiesOf(context, row), attempt);
}

/**
 * Returns the account and the payment of the transaction, which landed in `slot`. The transaction
 * opened the account, so the paid period is the account's period whose start is nearest to the time
 * of the block.
 */
async function openedIn(
  { rpc }: Context,
  { signature }: OpenSponsorship,
  attempt: SponsoredAttempt,
  { account, slot }: { account: SubscriptionAccount; slot: bigint | null },
): Promise<Opened> {
  const times = await createBlockTimes(rpc)(slot === null ? [] : [slot]);
  // If the block time is unknown, the period start that the attempt recorded is used. The attempt
  // was signed less than two minutes before it could land.
  const at = (slot === null ? undefined : times.get(slot)) ?? unixSeconds(attempt.periodStart);
  const length = periodSeconds(account.periodHours);
  const later = (account.periodStart - at + length / 2n) / length;
  const periodStart = account.periodStart - (later > 0n ? later : 0n) * length;
  const periodEnd = periodStart + length;
  return { account, pull: { signature, at, periodStart, periodEnd, ...signedAmounts(attempt) } };
}

/**
 * Registers the subscription with its payment, and returns the written update. Returns undefined if
 * another keeper has settled the sponsorship, or if the account is already registered. The latter
 * happens if the database lost the first registration with its payment, and the subscription was
 * registered again. No payment is recorded then, because the collect loop finds it on chain.
 */
async function register(
  tx: Transaction,
  sponsorship: OpenSponsorship,
  landed: Landed & { resolution: Resolution },
): Promise<SubscriptionUpdate | undefined> {
  if (!(await lockOpenSponsorship(tx, sponsorship.offerId))) return undefined;
  const { id, update } = await storeLanded(tx, landed);
  const { resolution, view } = landed;
  if (update === undefined) {
    await resolveAttempts(tx, [resolution]);
    await makeDue(tx, [id], { chainNow: timeOf(view.now), slot: view.slot });
  }
  await endSponsorship(tx, sponsorship, { state: 'landed', reason: null, subscriptionId: id });
  return update;
}
