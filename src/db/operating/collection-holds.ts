// Reasons for which keepers must not sign payments: collection holds, suspended wallets, and the
// wait after a Postgres failover. A transaction that commits payment attempts first takes a shared
// advisory lock and then reads the reasons. The command that sets a hold takes the same lock
// exclusively, so the command waits until these transactions have ended. After the command has
// returned, no attempt that the hold forbids is committed.
import type { Queryable, Sql, Transaction } from '../postgres/connect.ts';
import { type Actor, recordAction } from './admin-actions.ts';

// Arbitrary key of the advisory lock: "hold" on a phone keypad.
const HOLD_LOCK = 4653n;

/** The brake: all database state that can stop keepers from signing. */
export interface Brake {
  /** The server's current WAL timeline (8 hex digits); null on a standby. */
  timeline: string | null;
  /** The timeline recorded by a keeper; null before the first keeper has started. */
  recorded: string | null;
  /** Collection waits until this block height is finalized; null means no wait. */
  collectsAfterHeight: bigint | null;
  /** Keepers must read accounts at this slot or later. */
  readsFromSlot: bigint;
  /** True when an operator or a keeper holds all collection. */
  all: boolean;
  /** Ids of held plans. */
  plans: string[];
  /** Sign-in wallets of held merchants. */
  merchants: string[];
  /**
   * Suspended wallets of merchants and of subscribers. readBrake() looks only for the wallets of
   * its argument `parties`.
   */
  suspendedMerchants: string[];
  suspendedSubscribers: string[];
}

/** The wallets of a subscription: the merchant's sign-in wallet and the subscriber's. */
export interface Parties {
  accountWallet: string;
  subscriberWallet: string;
}

/** Reads the brake. Suspensions are only read for the wallets of `parties`. */
export async function readBrake(sql: Queryable, parties: readonly Parties[] = []): Promise<Brake> {
  const merchants = [...new Set(parties.map(({ accountWallet }) => accountWallet))];
  const subscribers = [...new Set(parties.map(({ subscriberWallet }) => subscriberWallet))];
  const [row] = await sql<Brake[]>`
    select case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_lsn()), 1,
      8) end as timeline,
      i.timeline as recorded, i.collects_after_height, coalesce(i.reads_from_slot, 0) as
        reads_from_slot,
      exists (select from collection_holds where plan_id is null and merchant_id is null) as all,
      array(select plan_id::text from collection_holds where plan_id is not null) as plans,
      array(select m.wallet from collection_holds h join merchants m on m.id = h.merchant_id) as
        merchants,
      array(select wallet from suspensions where role = 'merchant'
        and wallet = any(${merchants}::text[])) as suspended_merchants,
      array(select wallet from suspensions where role = 'subscriber'
        and wallet = any(${subscribers}::text[])) as suspended_subscribers
    from (select 1) as one left join installation i on true`;
  if (row === undefined) throw new Error('no brake');
  return row;
}

/**
 * Locks and reads the brake before this transaction commits attempts. Until the transaction ends,
 * no other transaction can record a hold or a new timeline.
 */
export async function lockBrake(tx: Transaction, parties: readonly Parties[] = []): Promise<Brake> {
  // Postgres takes a new snapshot for each statement. The lock is a separate statement, so the next
  // statement sees everything that was committed while this transaction waited for the lock.
  await lockShared(tx);
  return readBrake(tx, parties);
}

/**
 * Takes the brake's lock in shared mode. Waits while another transaction sets a hold or a
 * suspension.
 */
export async function lockShared(tx: Transaction): Promise<void> {
  await tx`select pg_advisory_xact_lock_shared(${HOLD_LOCK})`;
}

/**
 * Takes the brake's lock in exclusive mode. Waits until no transaction holds the shared lock. Until
 * this transaction ends, no other transaction gets the lock.
 */
export async function lockAlone(tx: Transaction): Promise<void> {
  await tx`select pg_advisory_xact_lock(${HOLD_LOCK})`;
}

/** The scope of a hold: a merchant, a plan, or all collection when both ids are null. */
export interface Scope {
  merchantId: string | null;
  planId: string | null;
}

export interface Hold extends Scope {
  merchantWallet: string | null;
  reason: string;
  heldAt: Date;
  /**
   * Chain time at which a keeper last found payments on chain that the database lacks. All these
   * missing payments are older. null when the hold is not about missing payments.
   */
  missingUntil: Date | null;
}

/** Lists all holds, oldest first. */
export function listHolds(sql: Queryable): Promise<Hold[]> {
  return sql<Hold[]>`
    select h.merchant_id, h.plan_id, m.wallet as merchant_wallet, h.reason, h.held_at,
      h.missing_until
    from collection_holds h left join merchants m on m.id = h.merchant_id order by h.id`;
}

/** An operator's change to a hold. `what` is the scope in words for the audit log. */
export interface Change extends Scope {
  what: string | null;
  reason: string;
  by: Actor;
}

/**
 * Holds collection and records the action. If the scope is already held, replaces the reason of
 * that hold and returns false.
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
 * Ends a hold and records the action. Returns false when there was no hold. If a keeper set the
 * hold for missing payments, these payments count as accepted. Keepers do not hold collection for
 * accepted payments again.
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
 * Holds all collection because the database lacks payments. If such a hold exists already, updates
 * its missingUntil and returns false. If an operator already holds all collection for another
 * reason, sets missingUntil of that hold, keeps the operator's reason and returns true.
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
