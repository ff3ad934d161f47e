// Suspended wallets. Over the API, a suspended wallet can only read, cancel and close. Keepers sign
// no payments from or to a suspended wallet. Transactions that store payment attempts or
// registrations take the lock of collection-holds.ts in shared mode. suspend() takes this lock
// exclusively. After suspend() has returned, no attempt or registration of the wallet is therefore
// stored.
import { type Actor, recordAction } from '../operating/admin-actions.ts';
import { lockAlone } from '../operating/collection-holds.ts';
import type { Queryable, Sql } from '../postgres/connect.ts';
import { LAST_ID } from '../postgres/ids.ts';
import type { Page } from '../postgres/lists.ts';
import { recordset } from '../postgres/recordset.ts';

export type SuspendedRole = 'merchant' | 'subscriber';

/** A wallet in its role as a merchant or as a subscriber. */
export interface Account {
  role: SuspendedRole;
  wallet: string;
}

export interface Suspension extends Account {
  id: string;
  reason: string;
  /** True for a new merchant that waits for the operator's approval. */
  waiting: boolean;
  since: Date;
}

/** The columns of a Suspension. */
const columns = (sql: Queryable) => sql`id, role, wallet, reason, waiting, since`;

/** An operator's change to a suspension. */
interface Change extends Account {
  reason: string;
  by: Actor;
}

const commandOf = (role: SuspendedRole, verb: string) =>
  `${role === 'merchant' ? 'merchants' : 'wallets'} ${verb}`;

/**
 * Suspends a wallet and records the action. If the wallet is already suspended, replaces the reason
 * and returns false.
 */
export function suspend(sql: Sql, { role, wallet, reason, by }: Change): Promise<boolean> {
  return sql.begin(async (tx) => {
    await lockAlone(tx);
    const updated = await tx`
      update suspensions set reason = ${reason}, waiting = false
        where role = ${role} and wallet = ${wallet} returning 1`;
    if (updated.length === 0)
      await tx`
        insert into suspensions (role, wallet, reason) values (${role}, ${wallet}, ${reason})`;
    const action = { command: commandOf(role, 'suspend'), what: `${role} ${wallet}`, reason };
    await recordAction(tx, by, action);
    return updated.length === 0;
  });
}

/** Ends a suspension and records the action. Returns false when the wallet was not suspended. */
export function endSuspension(sql: Sql, { role, wallet, reason, by }: Change): Promise<boolean> {
  return sql.begin(async (tx) => {
    await lockAlone(tx);
    const { count } = await tx`
      delete from suspensions where role = ${role} and wallet = ${wallet}`;
    if (count === 0) return false;
    const action = { command: commandOf(role, 'resume'), what: `${role} ${wallet}`, reason };
    await recordAction(tx, by, action);
    return true;
  });
}

/**
 * Approves a merchant and records the action. If the wallet has never signed in, creates the
 * merchant; otherwise ends the merchant's wait for approval. An approved merchant's limit of
 * sponsored rent does not depend on its fees. If an operator has suspended the wallet, changes
 * nothing and returns `suspended`.
 */
export function approveMerchant(
  sql: Sql,
  { wallet, reason, by }: { wallet: string; reason: string | null; by: Actor },
): Promise<'created' | 'approved' | 'already' | 'suspended'> {
  return sql.begin(async (tx) => {
    await lockAlone(tx);
    const created = await tx`
      insert into merchants (wallet) values (${wallet}) on conflict (wallet) do nothing
        returning 1`;
    const [found] = await tx<{ waiting: boolean }[]>`
      select waiting from suspensions where role = 'merchant' and wallet = ${wallet}`;
    if (found?.waiting === false) return 'suspended';
    if (found === undefined && created.length === 0) return 'already';
    await tx`delete from suspensions where role = 'merchant' and wallet = ${wallet}`;
    await tx`update merchants set approved_at = now() where wallet = ${wallet}`;
    await recordAction(tx, by, {
      command: 'merchants approve',
      what: `merchant ${wallet}`,
      reason,
    });
    return created.length > 0 ? 'created' : 'approved';
  });
}

/** Finds the suspensions of these accounts. The result has no order. */
export function findSuspensions(
  sql: Queryable,
  accounts: readonly Account[],
): Promise<Suspension[]> {
  return sql<Suspension[]>`
    select s.* from (${recordset(sql, accounts, { role: 'text', wallet: 'text' })}) as asked,
      lateral (select ${columns(sql)} from suspensions
        where role = asked.role and wallet = asked.wallet limit 1) as s`;
}

/** Finds the suspensions of a wallet and of the merchant of a plan. */
export function findSuspensionsFor(
  sql: Queryable,
  { wallet, planId }: { wallet: string; planId: string },
): Promise<Suspension[]> {
  return sql<Suspension[]>`
    select ${columns(sql)} from suspensions where role = 'subscriber' and wallet = ${wallet}
      or role = 'merchant' and wallet = (
        select m.wallet from plans p join apps a on a.id = p.app_id
          join merchants m on m.id = a.merchant_id where p.id = ${planId})`;
}

/**
 * Whether the texts of a plan are hidden from a wallet: the plan's merchant is suspended, and the
 * wallet has no subscription to the plan.
 */
export async function isWithheld(
  sql: Queryable,
  { wallet, planId }: { wallet: string; planId: string },
): Promise<boolean> {
  const rows = await sql`
    select from plans p join apps a on a.id = p.app_id join merchants m on m.id = a.merchant_id
      join suspensions s on s.role = 'merchant' and s.wallet = m.wallet
    where p.id = ${planId} and not exists (
      select from subscriptions where subscriber_wallet = ${wallet} and plan_id = p.id)`;
  return rows.length > 0;
}

/** Lists suspensions of one role, newest first. */
export function listSuspensions(
  sql: Queryable,
  { role, after, limit }: Page & { role: SuspendedRole },
): Promise<Suspension[]> {
  return sql<Suspension[]>`
    select ${columns(sql)} from suspensions where role = ${role} and id < ${after ?? LAST_ID}
      order by id desc limit ${limit}`;
}
