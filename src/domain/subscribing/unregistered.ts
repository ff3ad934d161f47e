// Registers a subscription that a keeper sees on chain. A wallet whose page was closed between the
// transaction and the registration then still pays and gets what it bought.
//
//   live on chain, one offer fits -> registered with the offer's session
//   live on chain, no offer, the app has registerUnclaimed -> registered without ids
//   live on chain otherwise -> in the merchant's list until it is registered or no longer live
import type { SubscriptionAccount } from '../../chain/program/layouts.ts';
import { findApp } from '../../db/apps.ts';
import type { PlanRow } from '../../db/plans.ts';
import type { Sql } from '../../db/postgres/connect.ts';
import { isSignupOpen } from '../../db/sponsorships.ts';
import { findOfferedSessions, insertUnregistered } from '../../db/unregistered.ts';
import { ServiceError } from '../../errors.ts';
import type { ChainReader, Network } from './chain-reads.ts';
import { checkRegistration, storeRegistration } from './registration.ts';

interface Parts {
  sql: Sql;
  chain: ChainReader;
  network: Network;
}

/** `absent`: the RPC endpoint does not have the account yet. */
export type SeenOutcome = 'registered' | 'listed' | 'absent';

/**
 * Registers the live account at `subscriptionPda`, or adds the account to the merchant's list of
 * unregistered subscriptions. The account is a subscription to `plan`. Throws as the RPC client and
 * the database do.
 */
export async function registerSeen(
  parts: Parts,
  plan: PlanRow,
  subscriptionPda: string,
  account: SubscriptionAccount,
): Promise<SeenOutcome> {
  const { sql, chain, network } = parts;
  const { appId, id: planId } = plan;
  const wallet = account.subscriber;
  // An open sponsored sign-up is registered by its keeper, together with the payment.
  if (await isSignupOpen(sql, subscriptionPda)) return 'absent';
  const sessions = await findOfferedSessions(sql, wallet, subscriptionPda);
  const [session = null] = sessions;
  const list = async () => {
    await insertUnregistered(sql, { appId, planId, subscriptionPda, subscriberWallet: wallet });
    return 'listed' as const;
  };
  if (sessions.length > 1) return list();
  if (sessions.length === 0 && (await findApp(sql, appId))?.registerUnclaimed !== true)
    return list();
  try {
    const registration = await checkRegistration(sql, chain, network, {
      appId,
      planId,
      subscriptionPda,
      wallet,
      ...(session !== null && { checkoutSessionId: session }),
    });
    await sql.begin((tx) => storeRegistration(tx, { ...registration, isUnclaimed: true }));
    return 'registered';
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code === 'INTERNAL_ERROR') throw error;
    if (error.code === 'NOT_FOUND') return 'absent';
    return list();
  }
}
