// Leases of subscriptions. A keeper claims subscriptions and gets a lease on each, under the id of
// the claim. Every write under a lease has the claim id in its WHERE. If another claim has taken
// the lease, the write therefore changes nothing.
import type { Queryable } from '../postgres/connect.ts';
import { FIRST_ID } from '../postgres/ids.ts';

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

/** SQL for the claims as a table c (id, claim_id). */
export function claimsTable(sql: Queryable, claims: readonly ClaimKey[]) {
  const given = claims.map(({ id, claimId }) => ({ id, claim_id: claimId }));
  return sql`json_to_recordset(${JSON.stringify(given)}::text::json) as c (id uuid, claim_id uuid)`;
}

/**
 * After the keeper has renewed the lease of `row`, returns `row` with its new version. If another
 * transaction changed the row between the keeper's read and the renewal, returns the old version,
 * so that the keeper still detects the change.
 */
export const renewed = <Row extends { readonly version: string }>(
  row: Row,
  { before, after }: { readonly before: string; readonly after: string },
): Row => (before === row.version ? { ...row, version: after } : row);

/** A position in the index on (due_at, id), for keyset pagination. */
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
      select s.id
      from subscriptions s
      where s.due_at <= ${chainNow} and (s.due_at, s.id) > (${dueAt}::timestamptz, ${id}::uuid)
        and (s.lease_until is null or s.lease_until < now())
        and coalesce((select false from payment_attempts a
          where a.subscription_pda = s.subscription_pda and a.state = 'open' limit 1), true)
      order by s.due_at, s.id
      limit ${limit}
      for update skip locked
    )
    update subscriptions s set claim_id = ${claimId}, lease_until = now() + ${leaseSeconds} *
      interval '1 second'
    where s.id = any(array(select id from due))
    returning s.id, s.due_at`;
}

/** Leases one subscription. Returns false while the subscription is already leased. */
export async function claimRegistered(
  sql: Queryable,
  { id, claimId }: ClaimKey,
  leaseSeconds: number,
): Promise<boolean> {
  const { count } = await sql`
    update subscriptions set claim_id = ${claimId},
      lease_until = now() + ${leaseSeconds} * interval '1 second'
    where id = ${id} and (lease_until is null or lease_until < now())`;
  return count === 1;
}

/** Returns the earliest due_at after this chain time; null when no subscription is due later. */
export async function readNextDue(sql: Queryable, chainNow: Date): Promise<Date | null> {
  const [row] = await sql<{ dueAt: Date | null }[]>`
    select min(due_at) as due_at from subscriptions where due_at > ${chainNow}`;
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
      select due_at from subscriptions where due_at <= ${chainNow}
        and (lease_until is null or lease_until < now()) order by due_at, id limit 10000
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
      select s.id
      from payment_attempts a join subscriptions s on s.id = a.subscription_id
      where a.state = 'open' and (s.lease_until is null or s.lease_until < now())
      order by a.subscription_pda
      limit ${limit}
      for update of s skip locked
    )
    update subscriptions s set claim_id = ${claimId}, lease_until = now() + ${leaseSeconds} *
      interval '1 second'
    where s.id = any(array(select id from orphans))
    returning s.id`;
  return rows.map(({ id }) => id);
}

/**
 * A renewed lease. The renewal gives the row a new version, although only the lease changes.
 * `before` and `after` are the `version` (KeeperSubscriptionForEvents) before and after the
 * renewal.
 */
export interface RenewedLease {
  id: string;
  before: string;
  after: string;
}

/** Renews the leases that the claims still hold. Returns the renewed leases. */
export async function renewLeases(
  sql: Queryable,
  claims: readonly ClaimKey[],
  leaseSeconds: number,
): Promise<RenewedLease[]> {
  return sql<RenewedLease[]>`
    with claimed as (
      select s.id, s.xmin::text as version
      from subscriptions s
      join ${claimsTable(sql, claims)} on s.id = c.id and s.claim_id = c.claim_id
      order by s.id
      for update of s
    )
    update subscriptions s set lease_until = now() + ${leaseSeconds} * interval '1 second'
    from claimed where s.id = claimed.id
    returning s.id, claimed.version as before, s.xmin::text as after`;
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
      select s.id
      from subscriptions s
      join ${claimsTable(sql, claims)} on s.id = c.id and s.claim_id = c.claim_id
      order by s.id
      for update of s
    )
    update subscriptions s set due_at = coalesce(${until ?? null}::timestamptz, s.due_at),
      setbacks = s.setbacks + ${keeperFailure ? 1 : 0},
      lease_until = null, claim_id = null
    from claimed where s.id = claimed.id`;
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
    select s.id, s.xmin::text as version
    from subscriptions s
    join ${claimsTable(sql, claims)} on s.id = c.id and s.claim_id = c.claim_id
    order by s.id
    for update of s`;
}
