// The terms for a wallet, which may differ from the plan's terms: (1) a wallet gets one trial in
// each app, (2) if the wallet's account still runs, the wallet first pays for the rest of the
// running period.
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
 * The rest of a running period costs less every second. If the amount has fallen by at most the
 * shown amount divided by TOLERATED, the user need not confirm again.
 */
const TOLERATED = 100n;

/** Returns whether the wallet must see its own terms before it signs. */
export function isOther(shown: Terms, own: Standing): boolean {
  // The service computes the amounts of a change of plan when the wallet is known, so the page
  // shows them once. It does not show them again, although the credit shrinks every second.
  if (own.change !== null) return shown.change === undefined || shown.change === null;
  if (own.trialHours !== shown.trialHours) return true;
  const [before, now] = [today(shown), today(own)];
  return now > before || (before - now) * TOLERATED > before;
}
