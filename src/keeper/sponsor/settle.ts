// Settles sponsored transactions whose outcome is final. After a sign-up has landed, one database
// transaction registers the subscription and stores the payment and the events subscription_created
// and payment_success.
import { randomUUID } from 'node:crypto';
import { describeTransactionError } from '../../chain/program/errors.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { periodSeconds } from '../../chain/program/period.ts';
import { createBlockTimes } from '../../chain/rpc/block-times.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { resolveAttempts } from '../../db/money/payment-attempts.ts';
import {
  endSponsorship,
  lockOpenSponsorship,
  type OpenSponsorship,
  type SponsoredPayment,
} from '../../db/offers/sponsorships.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { claimOne } from '../../db/subscriptions/leases.ts';
import { readReplaced } from '../../db/subscriptions/plan-changes.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import { findLiveRegistration } from '../../db/subscriptions/subscriptions.ts';
import { listReplaced } from '../../db/subscriptions/unregistered.ts';
import { makeDue, readSubscriptions } from '../../db/subscriptions/work.ts';
import { outcomeOf } from '../../domain/collecting/attempt-end.ts';
import { Books } from '../../domain/collecting/books.ts';
import type { Pull } from '../../domain/collecting/chain-view.ts';
import { LEASE_SECONDS, writeAssessments } from '../../domain/collecting/settlement.ts';
import { isLive, type SubscriptionUpdate } from '../../domain/collecting/transitions.ts';
import {
  type Gone,
  readAccounts,
  registrationOf,
  type LandedView,
  storeGone,
} from '../../domain/offers/landed.ts';
import type { RegistrationToStore } from '../../domain/registration/claiming.ts';
import { storeRegistration } from '../../domain/registration/registration.ts';
import type { Context } from '../base/context.ts';
import { report } from '../track/reports.ts';
import { readGone } from './gone.ts';

type Attempt = SponsoredPayment & { id: string };

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
    const view = plan && (await readAccounts(context, plan, subscriptionPda, slot));
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
  { periodStart }: Attempt,
  account: SubscriptionAccount,
) => account.payer === sponsor && account.periodStart >= unixSeconds(periodStart) - 60n;

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
  const view = await readAccounts(context, plan, subscriptionPda, slot ?? least, replaced);
  const { subscription } = view;
  if (subscription === null || !isOpenedBy(sponsorship, attempt, subscription)) {
    // The wallet has closed the account. If the wallet has opened the account again, the new
    // account does not belong to this sign-up.
    const gone = await readGone(context, sponsorship, attempt, { plan, view, replaced });
    context.log.warn(
      { offer: sponsorship.offerId, signature: sponsorship.signature },
      'sponsored subscription landed and is gone: it is registered as ended',
    );
    await stored(context, sponsorship, (tx) => registerGone(tx, sponsorship, attempt, gone));
    return;
  }
  const times = await createBlockTimes(context.rpc)(slot === null ? [] : [slot]);
  const at = slot === null ? undefined : times.get(slot);
  // If the block time is unknown, the period start that the attempt recorded is used. The attempt
  // was signed less than two minutes before it could land.
  const pull = pullOf(sponsorship, attempt, subscription, at ?? unixSeconds(attempt.periodStart));
  const registration = await registrationOf(context.sql, sponsorship, plan, {
    ...{ account: subscription, view, pull, replaced },
  });
  if (view.replacedRuns)
    context.log.warn(
      { offer: sponsorship.offerId, subscription: replaces, account: replaced?.subscriptionPda },
      'replaced subscription runs on chain: its wallet has resumed it',
    );
  await stored(context, sponsorship, (tx) =>
    register(tx, context, { sponsorship, attempt, registration, pull, view }),
  );
}

/** Registers a landed sign-up in one database transaction, and reports it. */
async function stored(
  context: Context,
  { signature }: OpenSponsorship,
  storing: (tx: Transaction) => Promise<SubscriptionUpdate | undefined>,
): Promise<void> {
  const update = await context.sql.begin(storing);
  context.deliveries.notify();
  if (update === undefined) return;
  report(context, update, undefined, signature);
  if (isLive(update.state)) context.onRead([{ ...update.row, ...update.state }]);
}

/**
 * Returns the payment of the transaction. The transaction opened the account, so the paid period is
 * the account's period whose start is nearest to the time of the block (`at`).
 */
function pullOf(
  { signature }: OpenSponsorship,
  { amountGross: gross, platformFee: fee, amountNet: net, feeOwed, creditSpent }: Attempt,
  account: SubscriptionAccount,
  at: bigint,
): Pull {
  const length = periodSeconds(account.periodHours);
  const later = (account.periodStart - at + length / 2n) / length;
  const periodStart = account.periodStart - (later > 0n ? later : 0n) * length;
  const periodEnd = periodStart + length;
  const amounts = { gross, fee, net, feeOwed, creditSpent };
  return { signature, at, periodStart, periodEnd, ...amounts, source: 'keeper' };
}

/**
 * Registers the subscription with its payment, and returns the written update. Returns undefined if
 * another keeper has settled the sponsorship, or if the account is already registered.
 */
async function register(
  tx: Transaction,
  { rules }: Context,
  {
    sponsorship,
    attempt,
    registration,
    pull,
    view,
  }: {
    sponsorship: OpenSponsorship;
    attempt: Attempt;
    registration: RegistrationToStore;
    pull: Pull;
    view: LandedView;
  },
): Promise<SubscriptionUpdate | undefined> {
  const { offerId, signature, transaction, lastValidBlockHeight, blockhashSlot } = sponsorship;
  if (!(await lockOpenSponsorship(tx, offerId))) return undefined;
  const before = await findLiveRegistration(tx, registration.subscriptionPda);
  const id = await storeRegistration(tx, registration);
  // The replaced subscription still runs on chain, because its wallet has resumed it. The change of
  // plan is valid all the same, because the wallet has paid the price of a change. Nothing is
  // collected for the replaced subscription. The merchant's list shows that it still runs.
  if (sponsorship.replaces !== null && view.replacedRuns)
    await listReplaced(tx, sponsorship.replaces);
  const chainNow = timeOf(view.now);
  if (before === id) {
    await endRegistered(tx, sponsorship, attempt, { id, view });
    return undefined;
  }
  const claimId = randomUUID();
  await claimOne(tx, { id, claimId }, LEASE_SECONDS);
  const [row] = await readSubscriptions(tx, [id]);
  if (row === undefined) throw new Error(`the subscription ${id} was not stored`);
  const { id: attemptId, ...amounts } = attempt;
  const committed = {
    ...amounts,
    id: attemptId,
    subscriptionId: id,
    position: 0,
    payments: 1,
    signature,
    transaction,
    lastValidBlockHeight,
    blockhashSlot,
  };
  const outcome = outcomeOf(
    rules,
    row,
    { attempt: committed, row },
    { kind: 'paid', pull, earlier: [] },
    { view, now: view.now, mark: (found) => new Books().mark(row.subscriptionPda, found) },
  );
  const claim = { id, claimId, notices: row.notices };
  const { written } = await writeAssessments(tx, [{ ...outcome, claim, row }], { chainNow });
  if (written.length !== 1) throw new Error(`the payment ${signature} was not written`);
  await endSponsorship(tx, sponsorship, { state: 'landed', reason: null, subscriptionId: id });
  return outcome.update;
}

/**
 * Registers a sign-up whose account is gone, with its payment. Returns undefined in the same cases
 * as register().
 */
async function registerGone(
  tx: Transaction,
  sponsorship: OpenSponsorship,
  attempt: Attempt,
  gone: Gone,
): Promise<SubscriptionUpdate | undefined> {
  if (!(await lockOpenSponsorship(tx, sponsorship.offerId))) return undefined;
  const { id, update } = await storeGone(tx, gone);
  if (update === undefined) await endRegistered(tx, sponsorship, attempt, { id, view: gone.view });
  else await endSponsorship(tx, sponsorship, { state: 'landed', reason: null, subscriptionId: id });
  return update;
}

/**
 * Ends a sponsorship whose account is already registered. This happens if the database lost the
 * first registration with its payment, and the subscription was registered again. No payment is
 * recorded here, because the collect loop finds the payment on chain and records it.
 */
async function endRegistered(
  tx: Transaction,
  sponsorship: OpenSponsorship,
  attempt: Attempt,
  { id, view: { now, slot } }: { id: string; view: LandedView },
): Promise<void> {
  await resolveAttempts(tx, [{ id: attempt.id, state: 'landed', error: null }]);
  await endSponsorship(tx, sponsorship, { state: 'landed', reason: null, subscriptionId: id });
  await makeDue(tx, [id], { chainNow: timeOf(now), slot });
}
