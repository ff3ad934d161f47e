// Every transaction that we sign, committed before it is first sent.
import { blobs, integers, literal, times } from './arrays.ts';
import type { Queryable } from './connect.ts';

export interface AttemptRow {
  id: string;
  subscriptionId: string;
  periodStart: Date;
  signature: string;
  transaction: Buffer;
  lastValidBlockHeight: bigint;
  amountGross: bigint;
  platformFee: bigint;
  amountNet: bigint;
}

/** Commits signed transactions; returns their ids by subscription. Throws on a second open one of a subscription's period (unique index). */
export async function insertAttempts(
  sql: Queryable,
  attempts: (Omit<AttemptRow, 'id'> & { claimId: string })[],
): Promise<{ id: string; subscriptionId: string }[]> {
  return sql<{ id: string; subscriptionId: string }[]>`
    insert into payment_attempts (subscription_id, period_start, claim_id, signature, transaction, last_valid_block_height, amount_gross,
      platform_fee, amount_net)
    select v.subscription_id, v.period_start, v.claim_id, v.signature, decode(v.transaction, 'hex'), v.last_valid_block_height, v.amount_gross,
      v.platform_fee, v.amount_net
    from unnest(
      ${literal(attempts.map(({ subscriptionId }) => subscriptionId))}::uuid[], ${literal(times(attempts.map(({ periodStart }) => periodStart)))}::timestamptz[],
      ${literal(attempts.map(({ claimId }) => claimId))}::uuid[], ${literal(attempts.map(({ signature }) => signature))}::text[],
      ${blobs(attempts.map(({ transaction }) => transaction))}::text[],
      ${literal(integers(attempts.map(({ lastValidBlockHeight }) => lastValidBlockHeight)))}::int8[],
      ${literal(integers(attempts.map(({ amountGross }) => amountGross)))}::int8[], ${literal(integers(attempts.map(({ platformFee }) => platformFee)))}::int8[],
      ${literal(integers(attempts.map(({ amountNet }) => amountNet)))}::int8[]
    ) as v (subscription_id, period_start, claim_id, signature, transaction, last_valid_block_height, amount_gross, platform_fee, amount_net)
    returning id, subscription_id`;
}

/** The open attempts of these subscriptions, oldest first. */
export function readOpenAttempts(sql: Queryable, subscriptionIds: string[]): Promise<AttemptRow[]> {
  return sql<AttemptRow[]>`
    select id, subscription_id, period_start, signature, transaction, last_valid_block_height, amount_gross, platform_fee, amount_net
    from payment_attempts
    where subscription_id = any(${literal(subscriptionIds)}::uuid[]) and state = 'open'
    order by created_at, id`;
}

/** What an open attempt is to pull, and of which period. */
export type UnderWay = Pick<AttemptRow, 'subscriptionId' | 'periodStart' | 'amountGross'>;

/** What is under way of these subscriptions. */
export function readUnderWay(sql: Queryable, subscriptionIds: string[]): Promise<UnderWay[]> {
  return sql<UnderWay[]>`
    select subscription_id, period_start, amount_gross from payment_attempts
    where subscription_id = any(${literal(subscriptionIds)}::uuid[]) and state = 'open'`;
}

export interface Resolution {
  id: string;
  state: 'landed' | 'failed' | 'expired';
  error: string | null;
}

/** Closes attempts, whose subscriptions the caller has locked under their claims. */
export async function resolveAttempts(sql: Queryable, resolutions: Resolution[]): Promise<void> {
  await sql`
    update payment_attempts a set state = v.state, error = v.error, resolved_at = now()
    from unnest(${literal(resolutions.map(({ id }) => id))}::uuid[], ${literal(resolutions.map(({ state }) => state))}::text[],
      ${literal(resolutions.map(({ error }) => error))}::text[]) as v (id, state, error)
    where a.id = v.id and a.state = 'open'`;
}

/** How many attempts are open, and for how long the oldest is. */
export async function measureOpenAttempts(sql: Queryable): Promise<{ count: number; oldestSeconds: number }> {
  const [row] = await sql<{ count: number; oldestSeconds: number }[]>`
    select count(*)::int as count, coalesce(extract(epoch from now() - min(created_at)), 0)::float8 as oldest_seconds
    from payment_attempts where state = 'open'`;
  return row ?? { count: 0, oldestSeconds: 0 };
}
