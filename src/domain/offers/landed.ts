// Reads and registers a sponsored sign-up that has landed. keeper/sponsor/settle.ts stores a
// sign-up whose account exists. If the wallet closed the account before a keeper settled the
// sign-up, storeGone() registers the subscription as ended, with its payment.
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
import type { Resolution } from '../../db/money/payment-attempts.ts';
import type { OpenSponsorship, SponsoredPayment } from '../../db/offers/sponsorships.ts';
import type { Queryable, Transaction } from '../../db/postgres/connect.ts';
import { findCheckoutSession } from '../../db/subscriptions/checkout-sessions.ts';
import { claimOne } from '../../db/subscriptions/leases.ts';
import type { ReplacedRow } from '../../db/subscriptions/plan-changes.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { findLiveRegistration } from '../../db/subscriptions/subscriptions.ts';
import { listReplaced } from '../../db/subscriptions/unregistered.ts';
import { readSubscriptions } from '../../db/subscriptions/work.ts';
import { Books } from '../collecting/books.ts';
import type { ChainView, Pull } from '../collecting/chain-view.ts';
import { noteRead } from '../collecting/ending.ts';
import { pullsIn, type PullParties, recordPull } from '../collecting/pulls.ts';
import { LEASE_SECONDS, writeAssessments } from '../collecting/settlement.ts';
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
  | 'signature'
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
export async function readAccounts(
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

/**
 * Returns the registration of a landed sign-up. Its terms are from the offer, its period and init
 * id from `account`.
 */
export async function registrationOf(
  sql: Queryable,
  signUp: SignUp,
  plan: PlanRow,
  {
    account: { initId, periodStart },
    view: { slot, now },
    pull,
    replaced,
  }: {
    account: AccountIdentity;
    view: Pick<ChainView, 'slot' | 'now'>;
    pull: Pull;
    replaced: ReplacedRow | undefined;
  },
): Promise<RegistrationToStore> {
  const { checkoutSessionId: id } = signUp;
  const session = id === null ? undefined : await findCheckoutSession(sql, id);
  const registration: RegistrationToStore = {
    appId: plan.appId,
    planId: plan.id,
    subscriptionPda: signUp.subscriptionPda ?? '',
    subscriberWallet: signUp.wallet,
    dueAt: timeOf(now),
    trialFrom: null,
    chargedFrom: null,
    observedSlot: slot,
    initId,
    periodStart: timeOf(periodStart),
    hasLanded: true,
    ...(session !== undefined && termsOfSession(session)),
  };
  const { replaces, creditAt } = signUp;
  if (replaces === null || creditAt === null) return registration;
  // The payment was computed with the credit at `creditAt`. The credit is taken over as of
  // `creditAt` or the start of the paid period, whichever is earlier, because at an earlier time
  // the credit is never less. Refunds and other changes of plan cannot reduce it:
  // `hasSponsoredChange` (db/subscriptions/plan-changes.ts) blocks them while the sponsorship is
  // open.
  const at = pull.periodStart < unixSeconds(creditAt) ? pull.periodStart : unixSeconds(creditAt);
  const { offerId, createdAt: offeredAt } = signUp;
  const change = { id: replaces, when: 'now', at, offeredAt, offerId } as const;
  return { ...registration, ...keptIds(replaced, registration), change };
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
  { amountGross: gross, platformFee: fee, amountNet: net, feeOwed, creditSpent }: SponsoredPayment,
): Opened {
  const { programId, subscriptionPda } = parties;
  const [pull] = pullsIn(transaction, parties);
  const opened = openedAccount(transaction.instructions, programId, subscriptionPda);
  if (pull === undefined || opened === undefined)
    throw new ChainDataError(`${transaction.signature} opens no paid subscription`);
  // A transaction that opens the wallet's authority too does not name its init id, which is the
  // slot in which the authority is opened.
  const initId = opened.initId === UNKNOWN_INIT_ID ? transaction.slot : opened.initId;
  const amounts = { gross, fee, net, feeOwed, creditSpent };
  return {
    account: { initId, periodStart: pull.periodStart },
    pull: { ...pull, ...amounts, source: 'keeper' },
  };
}

/** A landed sign-up whose account is gone. */
export interface Gone {
  readonly one: SignUp;
  /** Made by registrationOf(). */
  readonly registration: RegistrationToStore;
  readonly pull: Pull;
  /** The accounts now. If the wallet has opened another account at the address, it is ignored. */
  readonly view: LandedView;
  /** How the payment attempt has ended, if it is still open. */
  readonly resolution?: Resolution;
}

/**
 * Registers a sign-up whose account is gone as an ended subscription, and records its payment.
 * Writes the events subscription_created, payment_success and cancel_finalized. A registration of a
 * later account at the address is unchanged. If this account is already registered, only returns
 * the id of its registration. The caller must hold the lock on the sponsorship.
 */
export async function storeGone(
  tx: Transaction,
  { one, registration, pull, view, resolution }: Gone,
): Promise<{ id: string; update: SubscriptionUpdate | undefined }> {
  const live = await findLiveRegistration(tx, registration.subscriptionPda);
  const gone = { signedAt: one.createdAt };
  const id = await storeRegistration(tx, { ...registration, gone });
  if (one.replaces !== null && view.replacedRuns) await listReplaced(tx, one.replaces);
  if (live === id) return { id, update: undefined };
  const claimId = randomUUID();
  await claimOne(tx, { id, claimId }, LEASE_SECONDS);
  const [row] = await readSubscriptions(tx, [id]);
  if (row === undefined) throw new Error(`the subscription ${id} was not stored`);
  const update = updateOf(row);
  const { now } = view;
  recordPull(update, new Books().mark(row.subscriptionPda, pull), null);
  // Another puller may have collected from the account before it was closed. A keeper reads the
  // account's history once, because the subscription is due.
  applyEnd(update, { now, endReason: null, accountClosed: true, dueAt: timeOf(now) });
  update.state.periodAnchor = timeOf(pull.periodStart);
  noteRead(update, view, null);
  const claim = { id, claimId, notices: row.notices };
  const assessment = { update, claim, row, ...(resolution !== undefined && { resolution }) };
  const { written } = await writeAssessments(tx, [assessment], { chainNow: timeOf(now) });
  if (written.length !== 1) throw new Error(`the payment ${pull.signature} was not written`);
  return { id, update };
}
