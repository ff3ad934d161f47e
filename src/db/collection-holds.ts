// What keeps keepers from signing: holds by operators, and the wait after Postgres failed over.
// Committing an attempt takes a shared lock and reads both; a hold takes the lock alone, so that
// nothing new is committed once it has answered.
import { type Actor, recordAction } from './admin-actions.ts';
import type { Queryable, Sql, Transaction } from './postgres/connect.ts';

// An arbitrary key of advisory locks: "hold" on a phone keypad.
const HOLD_LOCK = 4653n;

/** State that forbids to sign. */
export interface Brake {
  /** The server's timeline (8 hex digits); null on a standby. */
  timeline: string | null;
  /** The recorded timeline; null before the first keeper. */
  recorded: string | null;
  /** The finalized block height that has to pass first; null for none. */
  collectsAfterHeight: bigint | null;
  /** Accounts are not read from an older state. */
  readsFromSlot: bigint;
  /** Everything is held. */
  all: boolean;
  /** Ids of held plans. */
  plans: string[];
  /** Sign-in wallets of held merchants. */
  merchants: string[];
}

export async function readBrake(sql: Queryable): Promise<Brake> {
  const [row] = await sql<Brake[]>`
    select case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1,
      8) end as timeline,
      i.timeline as recorded, i.collects_after_height, coalesce(i.reads_from_slot, 0) as
        reads_from_slot,
      exists (select from collection_holds where plan_id is null and merchant_id is null) as all,
      array(select plan_id::text from collection_holds where plan_id is not null) as plans,
      array(select m.wallet from collection_holds h join merchants m on m.id = h.merchant_id) as
        merchants
    from (select 1) as one left join installation i on true`;
  if (row === undefined) throw new Error('no brake');
  return row;
}

/**
 * Reads it for attempts that this transaction commits: no hold and no change of the timeline is
 * recorded until its end.
 */
export async function lockBrake(tx: Transaction): Promise<Brake> {
  // A statement of its own: the next one sees what was committed while this one waited.
  await tx`select pg_advisory_xact_lock_shared(${HOLD_LOCK})`;
  return readBrake(tx);
}

/** Waits for the transactions that hold the shared lock; later ones wait for this one. */
async function lockAlone(tx: Transaction): Promise<void> {
  await tx`select pg_advisory_xact_lock(${HOLD_LOCK})`;
}

/** What a hold covers; all with null in both. */
export interface Scope {
  merchantId: string | null;
  planId: string | null;
}

export interface Hold extends Scope {
  merchantWallet: string | null;
  reason: string;
  heldAt: Date;
  /** A keeper found payments on chain, up to this chain time, that the database lacks. */
  missingUntil: Date | null;
}

/** The holds, the oldest first. */
export function listHolds(sql: Queryable): Promise<Hold[]> {
  return sql<Hold[]>`
    select h.merchant_id, h.plan_id, m.wallet as merchant_wallet, h.reason, h.held_at,
      h.missing_until
    from collection_holds h left join merchants m on m.id = h.merchant_id order by h.id`;
}

/** An operator's change: its scope, and the scope in words. */
export interface Change extends Scope {
  what: string | null;
  reason: string;
  by: Actor;
}

/**
 * Holds collection and records the action. False when it was held already; then only the reason is
 * replaced.
 */
export function holdCollection(
  sql: Sql,
  { merchantId, planId, what, reason, by }: Change,
): Promise<boolean> {
  return sql.begin(async (tx) => {
    await lockAlone(tx);
    const held = await tx`
      update collection_holds set reason = ${reason} where ${ofScope(tx, { merchantId, planId })}
        returning id`;
    if (held.length === 0)
      await tx`
        insert into collection_holds (merchant_id, plan_id, reason)
          values (${merchantId}, ${planId}, ${reason})`;
    await recordAction(tx, by, { command: 'collection hold', what, reason });
    return held.length === 0;
  });
}

/**
 * Ends a hold and records the action; false when there was none. Payments on chain that the
 * database lacks are accepted with it: they hold collection no more.
 */
export function resumeCollection(
  sql: Sql,
  { merchantId, planId, what, reason, by }: Change,
): Promise<boolean> {
  return sql.begin(async (tx) => {
    await lockAlone(tx);
    const [ended] = await tx<{ missingUntil: Date | null }[]>`
      delete from collection_holds where ${ofScope(tx, { merchantId, planId })}
        returning missing_until`;
    if (ended === undefined) return false;
    if (ended.missingUntil !== null)
      await tx`
        update installation set history_accepted_until = greatest(history_accepted_until,
          ${ended.missingUntil})`;
    await recordAction(tx, by, { command: 'collection resume', what, reason });
    return true;
  });
}

/**
 * Holds everything because the database lacks payments. False when a hold says so already; an
 * operator's hold keeps its reason.
 */
export function holdForMissing(
  sql: Sql,
  { reason, missingUntil, by }: { reason: string; missingUntil: Date; by: Actor },
): Promise<boolean> {
  return sql.begin(async (tx) => {
    await lockAlone(tx);
    const all = { merchantId: null, planId: null };
    const [held] = await tx<{ known: boolean }[]>`
      update collection_holds h set missing_until = ${missingUntil}
      from (select id, missing_until is not null as known from collection_holds
        where ${ofScope(tx, all)}) as before
      where h.id = before.id returning before.known`;
    if (held?.known === true) return false;
    if (held === undefined)
      await tx`insert into collection_holds (reason, missing_until)
        values (${reason}, ${missingUntil})`;
    await recordAction(tx, by, { command: 'collection hold', what: null, reason });
    return true;
  });
}

const ofScope = (sql: Queryable, { merchantId, planId }: Scope) => sql`
  merchant_id is not distinct from ${merchantId}::uuid and plan_id is not distinct
    from ${planId}::uuid`;
