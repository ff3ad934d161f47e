// A wallet that was shown a trial is not charged at once. The trial may already be used when the
// account is registered: the wallet has subscribed to two plans, each with a trial.
import type { OpenOffer } from '../../db/offers/open-offers.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import {
  hadTrial,
  lockTrials,
  type NewRegistration,
  takerOf,
} from '../../db/subscriptions/subscriptions.ts';
import { ServiceError } from '../../errors.ts';

/**
 * Whether the offer has shown a trial to the wallet, so that the registration must not charge at
 * once. A wallet that registers without naming the offer accepts the amount that `standing` shows.
 */
export function isTrialShown(
  { offerId, offers, relayed }: { offerId?: unknown; offers?: unknown; relayed?: unknown },
  offer: Pick<OpenOffer, 'trialHours'> | undefined,
): boolean {
  const isNamed = offerId !== undefined || offers !== undefined || relayed !== undefined;
  return isNamed && (offer?.trialHours ?? 0) > 0;
}

/** Throws CONFLICT if the wallet or the customer has had a trial. Locks the wallet's trials. */
export async function refuseUsedTrial(
  sql: Transaction,
  registration: NewRegistration & { appId: string },
): Promise<void> {
  await lockTrials(sql, registration);
  if (!(await hadTrial(sql, registration.appId, takerOf(registration)))) return;
  const message = 'showed a trial, and the wallet or the customer has had its trial since';
  throw new ServiceError(
    'CONFLICT',
    `The offer ${message}: the first payment would be due at once. Read the standing of the plan, which has its amount, and register without offerId to accept it.`,
    [{ path: 'offerId', message }],
  );
}
