// The terms for a wallet, which may differ from the plan's terms for two reasons: (1) A wallet gets
// only one trial in each app. (2) The wallet may have a cancelled subscription whose period has not
// ended. Subscribing resumes it, and the first payment is for the rest of this period.
import type { components } from '../../client/openapi.ts';

type PublicPlan = components['schemas']['PublicPlan'];
type Standing = components['schemas']['Standing'];

/** The terms that the page shows. Until a wallet is connected, these are the plan's terms. */
export type Terms = Pick<PublicPlan, 'trialHours' | 'schedule'> &
  Partial<Pick<Standing, 'usdcNeeded' | 'change'>>;

/** Returns the payment that the terms require today, in base units. */
const today = ({ usdcNeeded, trialHours, schedule }: Terms): bigint =>
  BigInt(usdcNeeded ?? (trialHours === null ? (schedule[0]?.amount ?? '0') : '0'));

/**
 * The price of the rest of a running period falls every second. If the price is lower than the
 * shown amount by at most 1 / TOLERATED of the shown amount, the user need not confirm again.
 */
const TOLERATED = 100n;

/**
 * Returns whether this wallet's terms (`standing`) differ so much from the shown terms that the
 * page must show them before the wallet signs.
 */
export function isOther(shown: Terms, standing: Standing): boolean {
  // The amounts of a change of plan are known only after the wallet is connected, so the page shows
  // them once before the wallet signs. Afterwards the amounts change every second, because the
  // credit shrinks. The page does not ask the user to confirm each of these small changes.
  if (standing.change !== null) return shown.change === undefined || shown.change === null;
  if (standing.trialHours !== shown.trialHours) return true;
  const [before, now] = [today(shown), today(standing)];
  return now > before || (before - now) * TOLERATED > before;
}
