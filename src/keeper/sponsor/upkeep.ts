import { countFees } from '../../db/offers/sponsored-merchants.ts';
import { forgetAddresses } from '../../db/offers/sponsorships.ts';
import type { Context } from '../base/context.ts';

/**
 * Forgets old network addresses, and counts the fees of new payments, which bound the sponsored
 * rent of their merchants. Resolves with true if more payments may be left to count.
 */
export async function keepUp({ sql }: Context): Promise<boolean> {
  await forgetAddresses(sql);
  return countFees(sql);
}
