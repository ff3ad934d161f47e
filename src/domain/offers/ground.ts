// Checks an offer again when its signed transaction arrives. Whatever would refuse a new offer now
// refuses the transaction too, because the transaction would do more on chain than the service
// registers: a change of plan cancels the old subscription even if the new one is not registered. A
// transaction that has already landed is not checked here.
//
//   subscribe -> the plan is sold; an account that it resumes may still be resumed, and neither
//                ended nor was registered since the wallet asked
//   change    -> also: the wallet is not frozen, the old subscription is live, not replaced, and
//                not cancelled by its merchant, and no other signed change of it may land
//   resume    -> the subscription is live, and the same as when the wallet asked
//   others    -> need nothing: a cancellation is never refused
import { subscriptionIn, tokenAccountIn } from '../../chain/program/accounts.ts';
import { tokenAccountAddress } from '../../chain/program/addresses.ts';
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { OfferedTransaction } from '../../db/offers/offers.ts';
import type { Queryable, Sql, Transaction } from '../../db/postgres/connect.ts';
import { findNewestRegistration } from '../../db/subscriptions/account-registrations.ts';
import { lockSignedChanges, lockSubscription } from '../../db/subscriptions/change-offers.ts';
import { findCheckoutSession } from '../../db/subscriptions/checkout-sessions.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import {
  findLiveRegistration,
  findSubscription,
  type SubscriptionRow,
} from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import { obstacleError } from '../actions/actions.ts';
import { type ChainSender, type BillingAddresses, readAccounts } from '../chain-reads.ts';
import { readOfferedChange } from '../change/change.ts';
import { readDeadChanges } from '../change/signed-changes.ts';
import { blockedPlan, closedPlan } from '../plans/selling.ts';
import { isOfAccount } from '../registration/ended.ts';
import { refuseRegistered } from '../registration/opening.ts';
import { readTakenOver } from '../registration/plan-credit.ts';
import { refuseMerchantsCancel } from './wallet-action.ts';

/** The fields of an offer that the check needs. */
export type Grounded = Pick<
  OfferedTransaction,
  | 'id'
  | 'wallet'
  | 'purpose'
  | 'planId'
  | 'subscriptionPda'
  | 'checkoutSessionId'
  | 'replaces'
  | 'changeWhen'
  | 'resumes'
  | 'offeredAt'
>;

/**
 * The chain state that is read before the database transaction that stores the signed transaction.
 */
export interface GroundFacts {
  /** The signed changes of plan that can no longer land (keyOf). */
  readonly dead: ReadonlySet<string>;
  /** Chain time in Unix seconds. */
  readonly now: bigint;
  /**
   * The account at the offer's address. Null if there is no account, or if the check does not need
   * it.
   */
  readonly account: SubscriptionAccount | null;
  /** Whether the issuer has frozen the token account of a wallet that changes plan or resumes. */
  readonly isFrozen: boolean;
}

const NOTHING: GroundFacts = { dead: new Set(), now: 0n, account: null, isFrozen: false };

/** The error when the subscription that an offer changes or resumes has ended. */
const groundHasEnded = (purpose: 'subscribe' | 'resume') =>
  new ServiceError(
    'CONFLICT',
    purpose === 'resume'
      ? 'The subscription has ended or was replaced since, so its terms may differ: ask for the transaction again.'
      : 'The subscription to change has ended: subscribe again.',
  );

/**
 * Reads the chain state for the check. Throws INTERNAL_ERROR if the chain is needed and
 * unreachable.
 */
export async function readGround(
  { sql, chain, network }: { sql: Sql; chain: ChainSender; network: BillingAddresses },
  offer: Grounded,
): Promise<GroundFacts> {
  const { id: except, resumes, replaces, wallet, subscriptionPda } = offer;
  const subscriptionId = await changedBy(sql, offer);
  const dead =
    subscriptionId === null
      ? NOTHING.dead
      : await readDeadChanges(sql, chain, { subscriptionId, except });
  // Opening an account approves payments, so the simulation of the relay names a frozen wallet.
  if (subscriptionPda === null || (!resumes && replaces === null)) return { ...NOTHING, dead };
  const tokens = tokenAccountAddress(wallet, network.mint).address;
  const { accounts, now } = await readAccounts(chain, [subscriptionPda, tokens]);
  const account = subscriptionIn(accounts[0] ?? null, network.programId);
  const isFrozen = tokenAccountIn(accounts[1] ?? null)?.state === 'frozen';
  return { dead, now, account, isFrozen };
}

/**
 * Returns the id of the subscription that the offer replaces or resumes, or null. A signed change
 * of plan that replaces this subscription blocks the offer.
 */
async function changedBy(
  sql: Queryable,
  { purpose, replaces, subscriptionPda }: Grounded,
): Promise<string | null> {
  if (purpose !== 'resume' || subscriptionPda === null) return replaces;
  return (await findLiveRegistration(sql, subscriptionPda)) ?? null;
}

/**
 * Locks the registrations on which the offer depends until the database transaction ends. Until
 * then they cannot end or get another signed change. Takes the locks in the order of a
 * registration, before the lock on the offer.
 */
export async function lockGround(tx: Transaction, offer: Grounded): Promise<void> {
  const { purpose, replaces, subscriptionPda, resumes } = offer;
  if (subscriptionPda !== null && (purpose === 'resume' || resumes))
    await findNewestRegistration(tx, subscriptionPda, { forUpdate: true });
  if (replaces !== null) await lockSubscription(tx, replaces);
}

/**
 * Throws CONFLICT if the offer would be refused now. The caller holds the locks of lockGround().
 * Throws PaymentUnderWay while a payment or a refund of the old subscription is open.
 */
export async function checkGround(
  tx: Transaction,
  offer: Grounded,
  facts: GroundFacts,
): Promise<void> {
  if (offer.purpose === 'resume') {
    const { id } = await findResumed(tx, offer);
    await refuseOtherChange(tx, { id, except: offer.id }, facts);
  }
  if (offer.purpose === 'subscribe') await checkSubscribe(tx, offer, facts);
}

/**
 * Finds the live subscription that a `resume` offer continues. Throws CONFLICT (1) if it has ended,
 * (2) if it was replaced or registered anew since the wallet asked, (3) if its merchant has
 * cancelled it.
 */
async function findResumed(
  sql: Queryable,
  { subscriptionPda, offeredAt }: Pick<Grounded, 'subscriptionPda' | 'offeredAt'>,
): Promise<SubscriptionRow> {
  const id =
    subscriptionPda === null ? undefined : await findLiveRegistration(sql, subscriptionPda);
  const row = id === undefined ? undefined : await findSubscription(sql, id);
  if (row === undefined || row.createdAt > offeredAt) throw groundHasEnded('resume');
  refuseMerchantsCancel(row);
  return row;
}

/** Whether findResumed() finds the subscription. */
export async function isResumable(
  sql: Queryable,
  offer: Pick<Grounded, 'subscriptionPda' | 'offeredAt'>,
): Promise<boolean> {
  try {
    await findResumed(sql, offer);
    return true;
  } catch (error) {
    if (error instanceof ServiceError) return false;
    throw error;
  }
}

async function checkSubscribe(tx: Transaction, offer: Grounded, facts: GroundFacts): Promise<void> {
  const { id: except, wallet, planId, checkoutSessionId, replaces, changeWhen: when } = offer;
  const plan = planId === null ? undefined : await findPlan(tx, planId);
  if (plan === undefined) throw groundHasEnded('subscribe');
  const closed = closedPlan(plan);
  if (closed !== undefined) throw closed;
  if (plan.collectionBlockedReason !== null) throw blockedPlan(plan.collectionBlockedReason);
  if (facts.isFrozen) throw obstacleError('frozen');
  if (offer.resumes) await checkResumed(tx, offer, facts);
  if (replaces === null || when === null) return;
  const session =
    checkoutSessionId === null ? undefined : await findCheckoutSession(tx, checkoutSessionId);
  await readOfferedChange(tx, { replaces, when, wallet }, plan, session ?? null);
  await refuseOtherChange(tx, { id: replaces, except }, facts);
  const taken = await readTakenOver(tx, { id: replaces, when, at: facts.now });
  if (taken === undefined) throw groundHasEnded('subscribe');
}

/** Throws CONFLICT if the account may not be resumed, or has another registration by now. */
async function checkResumed(
  tx: Transaction,
  { subscriptionPda, replaces, offeredAt }: Grounded,
  { account }: GroundFacts,
): Promise<void> {
  if (subscriptionPda === null || account === null) return;
  const newest = await findNewestRegistration(tx, subscriptionPda);
  refuseRegistered(newest, account, { isChange: replaces !== null });
  if (newest === undefined || !isOfAccount(newest, account)) return;
  const { createdAt, stoppedAt } = newest;
  if (createdAt > offeredAt || (stoppedAt !== null && stoppedAt >= offeredAt))
    throw groundHasEnded('resume');
}

async function refuseOtherChange(
  tx: Transaction,
  { id, except }: { id: string; except: string },
  { dead }: GroundFacts,
): Promise<void> {
  if (await lockSignedChanges(tx, id, dead, except))
    throw new ServiceError(
      'CONFLICT',
      'Another change of plan of this subscription may still land. Try again in a minute.',
    );
}
