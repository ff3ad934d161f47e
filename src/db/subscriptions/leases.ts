// Leases of subscriptions. A keeper claims subscriptions and gets a lease on each, under the id of
// the claim. Every write under a lease has the claim id in its WHERE. If another claim has taken
// the lease, the write therefore changes nothing.
import type { Queryable } from '../postgres/connect.ts';
import { FIRST_ID } from '../postgres/ids.ts';
import type { Fragment } from '../postgres/lists.ts';
import { recordset } from '../postgres/recordset.ts';

export interface Claim {
  claimId: string;
  limit: number;
  leaseSeconds: number;
}

/** A leased subscription and the id of the claim that leased it. */
export interface ClaimKey {
  id: string;
  claimId: string;
}

/** Builds the keys of the subscriptions that one claim leased. */
export const claimKeysOf = (claimId: string, rows: readonly { id: string }[]): ClaimKey[] =>
  rows.map(({ id }) => ({ id, claimId }));

/**
 * SQL for the version of `subscriptions s` and its `subscription_work w`. The version changes with
 * every write of `s` (xmin is the id of the writing transaction) and with every notice, but not
 * with the lease.
 */
export const version = (sql: Queryable) => sql`(s.xmin::text || ' ' || w.notices)`;

/** SQL for the claims as a table c (id, claim_id). */
export const claimsTable = (sql: Queryable, claims: readonly ClaimKey[]) =>
  sql`(${recordset(sql, claims, { id: 'uuid', claimId: 'uuid' })}) as c`;

/** A position in the index on (due_at, subscription_id), for keyset pagination. */
export interface DuePlace {
  dueAt: Date;
  id: string;
}

/**
 * Leases subscriptions that are due by chain time. Skips a subscription if its address has an open
 * attempt, even an attempt of an earlier registration. Leased rows stay due, so the search starts
 * after the position `after`. docs/postgres-notes.md explains the SQL.
 */
export function claimDue(
  sql: Queryable,
  {
    claimId,
    chainNow,
    limit,
    leaseSeconds,
    after,
  }: Claim & { chainNow: Date; after?: DuePlace | undefined },
): Promise<DuePlace[]> {
  const { dueAt, id } = after ?? { dueAt: new Date(0), id: FIRST_ID };
  return sql<DuePlace[]>`
    with due as (
      select w.subscription_id as id
      from subscription_work w
      where w.due_at <= ${chainNow}
        and (w.due_at, w.subscription_id) > (${dueAt}::timestamptz, ${id}::uuid)
        and (w.lease_until is null or w.lease_until < now())
        and coalesce((select false from payment_attempts a where a.subscription_pda = (
            select s.subscription_pda from subscriptions s where s.id = w.subscription_id)
          and a.state = 'open' limit 1), true)
      order by w.due_at, w.subscription_id
      limit ${limit}
      for update skip locked
    )
    update subscription_work w set claim_id = ${claimId}, lease_until = now() + ${leaseSeconds} *
      interval '1 second'
    where w.subscription_id = any(array(select id from due))
    returning w.subscription_id as id, w.due_at`;
}

/** Leases one subscription. Returns false while the subscription is already leased. */
export async function claimOne(
  sql: Queryable,
  { id, claimId }: ClaimKey,
  leaseSeconds: number,
): Promise<boolean> {
  const { count } = await sql`
    update subscription_work set claim_id = ${claimId},
      lease_until = now() + ${leaseSeconds} * interval '1 second'
    where subscription_id = ${id} and (lease_until is null or lease_until < now())`;
  return count === 1;
}

/** Returns the earliest due_at after this chain time; null when no subscription is due later. */
export async function readNextDue(sql: Queryable, chainNow: Date): Promise<Date | null> {
  const [row] = await sql<{ dueAt: Date | null }[]>`
    select min(due_at) as due_at from subscription_work where due_at > ${chainNow}`;
  return row?.dueAt ?? null;
}

/**
 * Returns the oldest due_at, and the number of due subscriptions without a lease (up to 10,000).
 */
export async function readBacklog(
  sql: Queryable,
  chainNow: Date,
): Promise<{ oldest: Date | null; waiting: number }> {
  const [row] = await sql<{ oldest: Date | null; waiting: number }[]>`
    select min(due_at) as oldest, count(*)::int as waiting from (
      select due_at from subscription_work where due_at <= ${chainNow}
        and (lease_until is null or lease_until < now())
      order by due_at, subscription_id limit 10000
    ) as waiting`;
  return row ?? { oldest: null, waiting: 0 };
}

/** Leases subscriptions with an open attempt and an expired lease. Returns their ids. */
export async function claimOrphans(
  sql: Queryable,
  { claimId, limit, leaseSeconds }: Claim,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    with orphans as (
      select w.subscription_id as id
      from payment_attempts a join subscription_work w using (subscription_id)
      where a.state = 'open' and (w.lease_until is null or w.lease_until < now())
      order by a.subscription_pda
      limit ${limit}
      for update of w skip locked
    )
    update subscription_work w set claim_id = ${claimId}, lease_until = now() + ${leaseSeconds} *
      interval '1 second'
    where w.subscription_id = any(array(select id from orphans))
    returning w.subscription_id as id`;
  return rows.map(({ id }) => id);
}

/** Renews the leases that the claims still hold. Returns the ids of their subscriptions. */
export async function renewLeases(
  sql: Queryable,
  claims: readonly ClaimKey[],
  leaseSeconds: number,
): Promise<Set<string>> {
  const rows = await sql<{ id: string }[]>`
    with claimed as (
      select w.subscription_id as id
      from subscription_work w
      join ${claimsTable(sql, claims)} on w.subscription_id = c.id and w.claim_id = c.claim_id
      order by 1
      for update of w
    )
    update subscription_work w set lease_until = now() + ${leaseSeconds} * interval '1 second'
    from claimed where w.subscription_id = claimed.id
    returning claimed.id`;
  return new Set(rows.map(({ id }) => id));
}

/**
 * Releases leases. `until` is the chain time at which the subscriptions are due again; without
 * `until`, due_at stays. After a failure that the subscriber did not cause, the caller sets
 * `keeperFailure`, which raises `setbacks` and thereby the next backoff.
 */
export async function releaseClaims(
  sql: Queryable,
  claims: readonly ClaimKey[],
  { until, keeperFailure = false }: { until?: Date; keeperFailure?: boolean } = {},
): Promise<void> {
  await sql`
    with claimed as (
      select w.subscription_id as id
      from subscription_work w
      join ${claimsTable(sql, claims)} on w.subscription_id = c.id and w.claim_id = c.claim_id
      order by 1
      for update of w
    )
    update subscription_work w set due_at = coalesce(${until ?? null}::timestamptz, w.due_at),
      setbacks = w.setbacks + ${keeperFailure ? 1 : 0},
      lease_until = null, claim_id = null
    from claimed where w.subscription_id = claimed.id`;
}

/**
 * Locks the rows that these claims still hold, until the caller's transaction ends. Returns the
 * `version` of each row, as KeeperSubscriptionForEvents defines it.
 */
export function lockClaimed(
  sql: Queryable,
  claims: readonly ClaimKey[],
): Promise<{ id: string; version: string }[]> {
  return sql<{ id: string; version: string }[]>`
    select s.id, ${version(sql)} as version
    from subscriptions s join subscription_work w on w.subscription_id = s.id
    join ${claimsTable(sql, claims)} on s.id = c.id and w.claim_id = c.claim_id
    order by s.id
    for update of s, w`;
}

/**
 * SQL for the due time of a subscription that ends with its paid time or its trial, or at once
 * without either. `edited` has trial_ends_at and created_at.
 */
export const atEndOfAccess = (sql: Queryable): Fragment =>
  sql`coalesce(greatest(w.paid_through, edited.trial_ends_at), edited.created_at)`;

/**
 * SQL for a CTE that makes the subscriptions of the CTE `edited` due at `dueAt` (SQL for a chain
 * time) and revokes the claims of keepers on them.
 */
export const takenFromKeepers = (sql: Queryable, dueAt: Fragment): Fragment => sql`taken as (
    update subscription_work w set due_at = ${dueAt}, lease_until = null, claim_id = null
    from edited where w.subscription_id = edited.id)`;
