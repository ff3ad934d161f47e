// Accounts that one endpoint does not have and that are not gone for sure.
import type { HeldSubscription } from '../db/subscriptions.ts';
import { YOUNG_SECONDS } from '../domain/decide.ts';
import type { View } from '../domain/chain-view.ts';
import type { Findings } from '../domain/decision.ts';
import { addressesOf } from './account-addresses.ts';
import type { Closed } from './close.ts';
import type { Context } from './preflight.ts';

/** The accounts without which something ends, and those without which something is not paid. */
const ENDING = ['subscription', 'plan', 'authority', 'subscriberTokens'] as const;
const RECEIVING = ['merchantTokens', 'treasuryTokens'] as const;

/** Subscriptions with an account that this endpoint does not have, and that is not gone for sure. What we closed ourselves is gone. */
export async function findDoubted(
  { programId, absence }: Context,
  rows: readonly HeldSubscription[],
  snapshot: { of(row: HeldSubscription): View },
  closed: Closed | undefined,
): Promise<[id: string, doubt: Findings][]> {
  const missing = rows.flatMap((row) => {
    const view = snapshot.of(row);
    // An account that no keeper has seen yet is waited for anyway.
    const isNew = row.periodAnchor === null && row.ageSeconds <= YOUNG_SECONDS;
    if (view instanceof Error || closed?.has(row.id) === true) return [];
    const at = addressesOf(row, programId);
    return [...(isNew ? [] : ENDING), ...RECEIVING]
      .filter((name) => view[name] === null)
      .map((name) => ({ id: row.id, name, address: at[name] }));
  });
  if (missing.length === 0) return [];
  const gone = await absence.gone([...new Set(missing.map(({ address }) => address))]);
  const isEnding = (name: string) => (ENDING as readonly string[]).includes(name);
  return missing
    .filter(({ address }) => !gone.has(address))
    .map(({ id, name }) => [
      id,
      isEnding(name) ? { absenceDoubted: true } : { receiverDoubted: true },
    ]);
}
