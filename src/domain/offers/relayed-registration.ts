// Registers the subscription that a relayed transaction has opened or resumed.
import pRetry from 'p-retry';
import { readAskedAt } from '../../db/offers/open-offers.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { findPlan } from '../../db/subscriptions/plans.ts';
import {
  findLiveRegistration,
  findSubscription,
  type SubscriptionRow,
} from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';
import type { BillingAddresses, ChainReader } from '../chain-reads.ts';
import { UnlistedLanding } from '../registration/registration-terms.ts';
import { checkRegistration, storeRegistration } from '../registration/registration.ts';
import type { SignedOffer } from './relay.ts';

/**
 * Returns the subscription that a confirmed transaction created or changed, or undefined if there
 * is none. Registers a created subscription first, unless an earlier registration of the account
 * has ended since the wallet asked for the transaction. If the account's history does not list the
 * transaction in time, leaves the registration to a keeper.
 */
export async function registerRelayed(
  { sql, chain, network }: { sql: Sql; chain: ChainReader; network: BillingAddresses },
  { offer, signature }: SignedOffer,
): Promise<SubscriptionRow | undefined> {
  const { purpose, planId, subscriptionPda, wallet } = offer;
  if (subscriptionPda === null || planId === null) return undefined;
  const found = async () => {
    const id = await findLiveRegistration(sql, subscriptionPda);
    return id === undefined ? undefined : findSubscription(sql, id);
  };
  if (purpose !== 'subscribe') return found();
  const plan = await findPlan(sql, planId);
  if (plan === undefined) return undefined;
  try {
    // Retries because another RPC endpoint may be some blocks behind the endpoint that confirmed
    // the transaction.
    const registration = await pRetry(
      () =>
        checkRegistration(sql, chain, network, {
          appId: plan.appId,
          planId,
          subscriptionPda,
          wallet,
          relayed: { offerId: offer.id, signature },
        }),
      { retries: 4, minTimeout: 200, shouldRetry: ({ error }) => isAbsent(error) },
    );
    const askedAt = await readAskedAt(sql, offer.id);
    const id = await sql.begin((tx) => storeRegistration(tx, { ...registration, askedAt }));
    return await findSubscription(sql, id);
  } catch (error) {
    const isConflict = error instanceof ServiceError && error.code === 'CONFLICT';
    if (isConflict || error instanceof UnlistedLanding) return found();
    throw error;
  }
}

const isAbsent = (error: unknown) => error instanceof ServiceError && error.code === 'NOT_FOUND';
