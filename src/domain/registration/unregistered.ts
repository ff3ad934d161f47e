// Registers a subscription that a keeper finds on chain. This is necessary when the wallet's page
// was closed between the transaction and the registration. An offer is a transaction that the
// service has made for a wallet to sign, perhaps in a checkout session. For an account that is live
// on chain:
//
//   the plan is sunset, and no change to it is open -> left alone: it takes no new subscriptions
//   open offers for two customers, or it is not clear which offer landed -> in the merchant's list
//   other open offers -> registered with the terms of the offer from which the account comes
//     (landed-offer.ts): a change of plan only if its transaction has landed
//   no offer fits, the account's registration has ended or was replaced -> as ended.ts says
//   no offer fits, the app has registerUnclaimed -> registered without ids of the merchant, if what
//     is charged is no more than what the plan's public terms show to the wallet. Its own
//     registration may set the terms of its checkout session before the first payment (claiming.ts)
//   otherwise -> in the merchant's list until it is registered or no longer live
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import type { Rpc } from '../../chain/rpc/rpc.ts';
import { timeOf } from '../../chain/time.ts';
import { findApp } from '../../db/accounts/apps.ts';
import { isResumeTaken, readOpenOffers } from '../../db/offers/open-offers.ts';
import { isSignupOpen } from '../../db/offers/sponsorships.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { findNewestRegistration } from '../../db/subscriptions/account-registrations.ts';
import type { PlanRow } from '../../db/subscriptions/plans.ts';
import { lockRegistrations } from '../../db/subscriptions/subscriptions.ts';
import { deleteUnregistered, insertUnregistered } from '../../db/subscriptions/unregistered.ts';
import { ServiceError } from '../../errors.ts';
import { type ChainReader, type BillingAddresses, reaching } from '../chain-reads.ts';
import { endOf, offersCountAfter, isStillValid } from './ended.ts';
import { firstPayment, trialOf } from './first-payment.ts';
import { areOfTwoCustomers, UnknownLanding } from './landed-offer.ts';
import { PaymentUnderWay } from './plan-credit.ts';
import { checkRegistration, JudgedBefore, storeRegistration } from './registration.ts';

interface Parts {
  sql: Sql;
  chain: ChainReader & Pick<Rpc, 'getTimesEverywhere'>;
  network: BillingAddresses;
  /** Minimum amount to collect (PLAN_MINIMUM_AMOUNT). */
  minimum: bigint;
}

/**
 * `absent`: the account was not registered, and the caller must try again later. Causes: (1) the
 * RPC endpoint lacks the account, (2) a sponsored sign-up is open, (3) a payment or refund of the
 * replaced subscription may still land, (4) the account or its registration has changed meanwhile.
 * `ended`: the account's registration has ended, and only its wallet can register the account
 * again. `closed`: the plan takes no new subscriptions, and no change to it is open.
 */
export type SeenOutcome = 'registered' | 'listed' | 'absent' | 'ended' | 'closed';

/**
 * Registers the live account at `subscriptionPda`, or adds the account to the merchant's list of
 * unregistered subscriptions, or leaves an ended subscription as it is. The account is a
 * subscription to `plan`. Throws as the RPC client and the database do.
 */
export async function registerSeen(
  parts: Parts,
  plan: PlanRow,
  subscriptionPda: string,
  account: SubscriptionAccount,
): Promise<SeenOutcome> {
  const { sql, chain, network, minimum } = parts;
  const { appId, id: planId } = plan;
  const wallet = account.subscriber;
  // A keeper registers an open sponsored sign-up itself, together with the payment.
  if (await isSignupOpen(sql, subscriptionPda)) return 'absent';
  const earlier = await findNewestRegistration(sql, subscriptionPda);
  const ended = endOf(earlier, account);
  const of = { wallet, subscriptionPda };
  const after = offersCountAfter(earlier, account);
  const offers = await readOpenOffers(sql, { ...of, after });
  const isChange = offers.some(({ replaces }) => replaces !== null);
  if (plan.status !== 'active' && !isChange) return 'closed';
  const isOfTwo = areOfTwoCustomers(offers);
  const judged = { newest: earlier, account };
  const leave = ({ isUnclear = isOfTwo } = {}): Promise<SeenOutcome> =>
    sql.begin(async (tx) => {
      await lockRegistrations(tx, subscriptionPda);
      const newest = await findNewestRegistration(tx, subscriptionPda, { forUpdate: true });
      if (!isStillValid(judged, newest)) return 'absent';
      if (ended !== undefined && !ended.isReplaced && !isUnclear) {
        await deleteUnregistered(tx, [subscriptionPda]);
        return 'ended';
      }
      await insertUnregistered(tx, { appId, planId, subscriptionPda, subscriberWallet: wallet });
      return 'listed';
    });
  const isWantedWithoutOffer = async () =>
    ended === undefined
      ? (await findApp(sql, appId))?.registerUnclaimed === true
      : ended.isReinstated || (await isResumeTaken(sql, { ...of, after: ended.at }));
  if (isOfTwo || (offers.length === 0 && !(await isWantedWithoutOffer()))) return leave();
  try {
    const registration = await checkRegistration(sql, chain, network, {
      appId,
      planId,
      subscriptionPda,
      wallet,
      offers,
      isKeepers: true,
      minimum,
    });
    const { dueWithoutOffer: due } = registration;
    if (due !== null && !(await isWantedWithoutOffer())) return await leave();
    // Only if the wallet has not requested anything from the service, a keeper waits for the wallet
    // and uses the public terms.
    const isWithoutOffer = due !== null && ended === undefined;
    if (isWithoutOffer && due > (await publiclyShown(sql, plan, wallet))) return await leave();
    const dueAt = isWithoutOffer ? await latestTime(chain, registration.dueAt) : registration.dueAt;
    const keepers = { isUnclaimed: true, isWithoutOffer, judged, dueAt };
    await sql.begin((tx) => storeRegistration(tx, { ...registration, ...keepers }));
    return 'registered';
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code === 'INTERNAL_ERROR') throw error;
    const isEarly = error instanceof PaymentUnderWay || error instanceof JudgedBefore;
    if (error.code === 'NOT_FOUND' || isEarly) return 'absent';
    return await leave({ isUnclear: error instanceof UnknownLanding });
  }
}

/**
 * The latest of `read` and the clocks of all endpoints. The wait for the wallet starts at this
 * time. If it started by a slow clock, it would be too short by all other clocks.
 */
async function latestTime(chain: Pick<Rpc, 'getTimesEverywhere'>, read: Date): Promise<Date> {
  const times = await reaching(chain.getTimesEverywhere());
  return times.map(timeOf).reduce((latest, one) => (one > latest ? one : latest), read);
}

/** The amount due at once, in base units, that the plan's public terms show to the wallet. */
async function publiclyShown(sql: Sql, plan: PlanRow, wallet: string): Promise<bigint> {
  const trialHours = await trialOf(sql, plan, wallet);
  return trialHours === null ? firstPayment(plan, undefined, null, 0n) : 0n;
}
