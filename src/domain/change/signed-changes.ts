// Changes of plan that may land while the merchant force-cancels the subscription. A change that
// lands takes the unused part of the paid time, so a force-cancel waits for every change that the
// wallet has signed with this service. A wallet may also send a change itself, without the
// service's knowledge. plan-credit.ts then compares the times of the offer and of the end to decide
// whether the change takes over.
import { timeOf } from '../../chain/time.ts';
import type { Queryable } from '../../db/postgres/connect.ts';
import {
  hasOfferedChange,
  keyOf,
  listSignedChanges,
  type SignedChange,
} from '../../db/subscriptions/change-offers.ts';
import { ServiceError } from '../../errors.ts';
import { type ChainSender, hasLapsed, readAccounts, readExpired } from '../chain-reads.ts';

/** What is known about changes of plan before the database transaction of a force-cancel. */
export interface KnownChanges {
  /** Keys (keyOf) of signed transactions that can no longer land. */
  readonly dead: ReadonlySet<string>;
  /** Chain time; null if it was not read. */
  readonly chainNow: Date | null;
}

export const NO_CHANGES: KnownChanges = { dead: new Set(), chainNow: null };

/**
 * Reads which signed changes of plan of the subscription can no longer land. Reads the chain only
 * if the wallet has an offer to change the plan. Throws INTERNAL_ERROR when the chain is
 * unreachable and the wallet has signed a change.
 */
export async function readKnownChanges(
  sql: Queryable,
  chain: ChainSender,
  subscriptionId: string,
): Promise<KnownChanges> {
  const signed = await listSignedChanges(sql, subscriptionId);
  if (signed.length === 0 && !(await hasOfferedChange(sql, subscriptionId))) return NO_CHANGES;
  return { dead: await readDead(chain, signed), chainNow: await readTime(chain) };
}

/**
 * Reads which signed changes of plan of the subscription can no longer land, without the offer
 * `except`. Throws INTERNAL_ERROR when the chain is unreachable and there are such changes.
 */
export async function readDeadChanges(
  sql: Queryable,
  chain: ChainSender,
  { subscriptionId, except }: { subscriptionId: string; except: string },
): Promise<ReadonlySet<string>> {
  const signed = await listSignedChanges(sql, subscriptionId);
  return readDead(
    chain,
    signed.filter(({ offerId }) => offerId !== except),
  );
}

/**
 * Returns the keys (keyOf) of the signed changes that can no longer land. Throws as isDead does.
 */
async function readDead(
  chain: ChainSender,
  signed: readonly SignedChange[],
): Promise<ReadonlySet<string>> {
  const dead = new Set<string>();
  for (const one of signed) if (await isDead(chain, one)) dead.add(keyOf(one));
  return dead;
}

/** Whether a signed change can no longer land. Throws as readKnownChanges does. */
async function isDead(
  chain: ChainSender,
  { signature, ...lifetime }: SignedChange,
): Promise<boolean> {
  if (signature !== null) return hasLapsed(chain, { signature, lifetime });
  return (await readExpired(chain, [lifetime]))(lifetime);
}

/** Chain time; null when the chain is unreachable. */
async function readTime(chain: ChainSender): Promise<Date | null> {
  try {
    return timeOf((await readAccounts(chain, [])).now);
  } catch (error) {
    if (error instanceof ServiceError) return null;
    throw error;
  }
}
