// Upper limits of what a merchant can store. A merchant who has reached a limit gets CONFLICT.
import {
  countApps,
  countLiveKeys,
  countOpenSessions,
  lockMerchant,
} from '../../db/accounts/quotas.ts';
import type { Transaction } from '../../db/postgres/connect.ts';
import { ServiceError } from '../../errors.ts';

export const quotas = { apps: 100, liveKeys: 50, openSessions: 10_000 };

const faults: Readonly<Record<keyof typeof quotas, string>> = {
  apps: `A merchant has at most ${quotas.apps} apps: change one that you no longer use.`,
  liveKeys: `A merchant has at most ${quotas.liveKeys} live API keys: revoke one first.`,
  openSessions: `A merchant has at most ${quotas.openSessions} open checkout sessions: each ends when it is complete, or after 24 hours.`,
};

/**
 * Throws CONFLICT when the merchant has reached the quota. Locks the merchant's row, so that
 * concurrent requests cannot exceed the quota. Call it in the transaction that adds the new row.
 */
export async function checkQuota(
  tx: Transaction,
  merchantId: string,
  quota: keyof typeof quotas,
): Promise<void> {
  await lockMerchant(tx, merchantId);
  const limit = quotas[quota];
  const count = {
    apps: () => countApps(tx, merchantId),
    liveKeys: () => countLiveKeys(tx, merchantId),
    openSessions: () => countOpenSessions(tx, merchantId, limit),
  }[quota];
  if ((await count()) >= limit) throw new ServiceError('CONFLICT', faults[quota]);
}
