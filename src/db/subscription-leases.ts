// Leases of subscriptions. A lease belongs to one claim until it expires. Every write under a lease
// repeats the claim id in its WHERE, so an expired claim changes nothing.
import type { Queryable } from './postgres/connect.ts';
import { FIRST_ID } from './postgres/ids.ts';

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
 * Returns the row with the version that the lease renewal has written. If another transaction
 * changed the row before the renewal, returns the row with its old version, so that the keeper
 * still detects the change.
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
 * attempt, including an attempt of an earlier registration. A leased row stays due until it is
 * settled, so a caller that claims several batches passes the last position as `after`.
 * docs/postgres-notes.md explains the SQL.
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

/** Claims one subscription. Returns false if another claim holds the subscription. */
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
 * A renewed lease. The renewal changes only the lease, but the row gets a new version. Contains the
 * row's versions before and after the renewal (KeeperSubscriptionForEvents).
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
 * Releases leases. `until` is the chain time at which the subscriptions are due again.
 * `keeperFailure` raises the setback counter of each row. The counter sets the backoff for failures
 * that the subscriber did not cause.
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
 * Locks the rows that these claims still hold, until the caller's transaction ends. Returns the row
 * versions (KeeperSubscriptionForEvents).
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
