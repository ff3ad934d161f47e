// Reads and registers a sponsored sign-up that has landed. If the wallet closed the account before
// a keeper settled the sign-up, the subscription is registered as ended, with its payment.
import { randomUUID } from 'node:crypto';
import { clockIn, planIn, subscriptionIn } from '../../chain/program/accounts.ts';
import { CLOCK_SYSVAR } from '../../chain/program/addresses.ts';
import { openedAccount, UNKNOWN_INIT_ID } from '../../chain/program/instructions.ts';
import {
  type AccountIdentity,
  ChainDataError,
  type PlanAccount,
} from '../../chain/program/layouts.ts';
import type { ConfirmedTransaction } from '../../chain/rpc/responses.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { timeOf, unixSeconds } from '../../chain/time.ts';
import { spendRestForOffer } from '../../db/invoices/credits.ts';
import type { Resolution } from '../../db/money/payment-attempts.ts';
import type { OpenSponsorship, SponsoredAttempt } from '../../db/offers/sponsorships.ts';
import type { Queryable, Transaction } from '../../db/postgres/connect.ts';
import { findCheckoutSession } from '../../db/subscriptions/checkout-sessions.ts';
import { claimOne } from '../../db/subscriptions/leases.ts';
import type { ReplacedRow } from '../../db/subscriptions/plan-changes.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { findLiveRegistration } from '../../db/subscriptions/subscriptions.ts';
import { listReplaced } from '../../db/subscriptions/unregistered.ts';
import { readSubscriptions } from '../../db/subscriptions/work.ts';
import { Books } from '../collecting/books.ts';
import { type ChainView, type Pull, signedAmounts } from '../collecting/chain-view.ts';
import { registeredAccount } from '../collecting/decide.ts';
import { noteRead } from '../collecting/ending.ts';
import { nextDueAfter, recordPull } from '../collecting/pulls.ts';
import { LEASE_SECONDS, writeAssessments } from '../collecting/settlement.ts';
import { pullsIn, type PullParties } from '../collecting/transaction-pulls.ts';
import { applyEnd, type SubscriptionUpdate, updateOf } from '../collecting/transitions.ts';
import type { RegistrationToStore } from '../registration/claiming.ts';
import { keptIds } from '../registration/kept-ids.ts';
import { termsOfSession } from '../registration/own-terms.ts';
import { storeRegistration } from '../registration/registration.ts';

/** A landed sponsored sign-up. */
export type SignUp = Pick<
  OpenSponsorship,
  | 'offerId'
  | 'wallet'
  | 'subscriptionPda'
  | 'checkoutSessionId'
  | 'replaces'
  | 'creditAt'
  | 'createdAt'
>;

/** The accounts of a sign-up. */
export interface LandedView extends ChainView {
  /**
   * True if the sign-up replaces a subscription (change of plan) whose on-chain account is not
   * cancelled.
   */
  readonly replacedRuns: boolean;
}

/** Reads the accounts at commitment `finalized`, at `slot` or later. */
export async function readLandedAccounts(
  { rpc, programId }: { rpc: Pick<Rpc, 'getMultipleAccounts'>; programId: string },
  plan: PlanRow,
  subscriptionPda: string,
  slot: bigint,
  replaced?: ReplacedRow,
): Promise<LandedView> {
  const addresses = [CLOCK_SYSVAR, subscriptionPda, plan.planPda];
  if (replaced !== undefined) addresses.push(replaced.subscriptionPda);
  const found = await rpc.getMultipleAccounts(addresses, {
    commitment: 'finalized',
    minSlot: slot,
  });
  const [clock = null, account = null, planAccount = null, other = null] = found.accounts;
  const onChain: PlanAccount | null = planIn(planAccount, programId);
  return {
    slot: found.slot,
    now: clockIn(clock),
    subscription: subscriptionIn(account, programId),
    plan: onChain,
    authority: null,
    authorityAddress: '',
    subscriberTokens: null,
    merchantTokens: null,
    treasuryTokens: null,
    replacedRuns: subscriptionIn(other, programId)?.expiresAt === 0n,
  };
}

/** The account that a transaction opened, and its payment. */
export interface Opened {
  readonly account: AccountIdentity;
  readonly pull: Pull;
}

/**
 * Reads the opened account and the payment from the transaction of a landed sign-up. The amounts
 * are the amounts that the keeper committed. Throws ChainDataError if the transaction opens no paid
 * subscription.
 */
export function openedBy(
  transaction: ConfirmedTransaction,
  parties: PullParties,
  attempt: SponsoredAttempt,
): Opened {
  const { programId, subscriptionPda } = parties;
  const [pull] = pullsIn(transaction, parties);
  const opened = openedAccount(transaction.instructions, programId, subscriptionPda);
  if (pull === undefined || opened === undefined)
    throw new ChainDataError(`${transaction.signature} opens no paid subscription`);
  // A transaction that opens the wallet's authority too does not name its init id, which is the
  // slot in which the authority is opened.
  const initId = opened.initId === UNKNOWN_INIT_ID ? transaction.slot : opened.initId;
  const account = { initId, periodStart: pull.periodStart };
  return { account, pull: { ...pull, ...signedAmounts(attempt) } };
}

/** A landed sign-up, with its account and its payment. */
export interface Landed extends Opened {
  readonly signUp: SignUp;
  readonly plan: PlanRow;
  /** The subscription that a change of plan replaces. */
  readonly replaced: ReplacedRow | undefined;
  /** The accounts now. */
  readonly view: LandedView;
  /** Whether the account is gone. If `view` has another account at the address, it is ignored. */
  readonly isGone: boolean;
  /** How the payment attempt has ended, if it is still open. */
  readonly resolution?: Resolution;
}

/**
 * Registers a landed sign-up, and records its payment. Writes the events subscription_created and
 * payment_success. If the account is gone, registers an ended subscription, with the event
 * cancel_finalized; a registration of a later account at the address is unchanged. If this account
 * is already registered, only returns the id of its registration. The caller must hold the lock on
 * the sponsorship.
 */
export async function storeLanded(
  tx: Transaction,
  landed: Landed,
): Promise<{ id: string; update: SubscriptionUpdate | undefined }> {
  const { signUp, pull, view, resolution } = landed;
  const registration = await registrationOf(tx, landed);
  const live = await findLiveRegistration(tx, registration.subscriptionPda);
  const id = await storeRegistration(tx, registration);
  // The replaced subscription still runs on chain, because its wallet has resumed it. The change of
  // plan is valid all the same, because the wallet has paid the price of a change. Nothing is
  // collected for the replaced subscription. The merchant's list shows that it still runs.
  if (signUp.replaces !== null && view.replacedRuns) await listReplaced(tx, signUp.replaces);
  if (live === id) return { id, update: undefined };
  const invoiceId = pull.invoice?.id ?? null;
  if (invoiceId !== null) await spendRestForOffer(tx, invoiceId, id);
  const claimId = randomUUID();
  await claimOne(tx, { id, claimId }, LEASE_SECONDS);
  const [row] = await readSubscriptions(tx, [id]);
  if (row === undefined) throw new Error(`the subscription ${id} was not stored`);
  const update = updateOf(row);
  const known = new Books().mark(row.subscriptionPda, pull);
  const account = registeredAccount(row, view.subscription);
  recordPull(update, known, landed.isGone ? null : nextDueAfter(pull, account, view));
  if (landed.isGone) applyGone(update, landed);
  const claim = { id, claimId, notices: row.notices };
  const assessment = { update, claim, row, ...(resolution !== undefined && { resolution }) };
  const { written } = await writeAssessments(tx, [assessment], { chainNow: timeOf(view.now) });
  if (written.length !== 1) throw new Error(`the payment ${pull.signature} was not written`);
  return { id, update };
}

/** Ends the subscription, because its account is gone. */
function applyGone(update: SubscriptionUpdate, { pull, view }: Landed): void {
  const dueAt = timeOf(view.now);
  // Another puller may have collected from the account before it was closed. A keeper reads the
  // account's history once, because the subscription is due.
  applyEnd(update, { now: view.now, endReason: null, accountClosed: true, dueAt });
  update.state.periodAnchor = timeOf(pull.periodStart);
  noteRead(update, view, null);
}

/**
 * Returns the registration of a landed sign-up. Its terms are from the offer, its period and init
 * id from `account`.
 */
async function registrationOf(
  sql: Queryable,
  { signUp, plan, account: { initId, periodStart }, view: { slot, now }, ...landed }: Landed,
): Promise<RegistrationToStore> {
  const { checkoutSessionId: id, replaces, creditAt, offerId, createdAt } = signUp;
  const session = id === null ? undefined : await findCheckoutSession(sql, id);
  const registration: RegistrationToStore = {
    appId: plan.appId,
    planId: plan.id,
    subscriptionPda: signUp.subscriptionPda ?? '',
    subscriberWallet: signUp.wallet,
    dueAt: timeOf(now),
    trialFrom: null,
    billedFrom: null,
    observedSlot: slot,
    initId,
    periodStart: timeOf(periodStart),
    hasLanded: true,
    ...(landed.isGone && { gone: { signedAt: createdAt } }),
    ...(session !== undefined && termsOfSession(session)),
  };
  if (replaces === null || creditAt === null) return registration;
  // The payment was computed with the credit at `creditAt`. The credit is taken over as of
  // `creditAt` or the start of the paid period, whichever is earlier, because at an earlier time
  // the credit is never less. Refunds and other changes of plan cannot reduce it:
  // `hasSponsoredChange` (db/subscriptions/plan-changes.ts) blocks them while the sponsorship is
  // open.
  const { pull, replaced } = landed;
  const at = pull.periodStart < unixSeconds(creditAt) ? pull.periodStart : unixSeconds(creditAt);
  const change = { id: replaces, when: 'now', at, offeredAt: createdAt, offerId } as const;
  return { ...registration, ...keptIds(replaced, registration), change };
}
