// Change of plan: the subscription that is replaced, and the payments whose unused parts become
// credit. change-offers.ts has the offers of transactions that make the change.
import { creditOf } from '../invoices/credits.ts';
import { voidOpenInvoice } from '../invoices/invoices.ts';
import { creditedPart, isTimeTaken, lockPaid } from '../invoices/notes.ts';
import { reservedCredit } from '../invoices/standing.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import { isSameAccount, stoppedAt } from './account-registrations.ts';
import { lockSubscription } from './change-offers.ts';
import { atEndOfAccess, takenFromKeepers } from './leases.ts';
import type { OwnIdsSource } from './merchant-edits.ts';
import { isRefundedInFull } from './refunded.ts';
import type { SubscriptionStatus } from './subscriptions.ts';

/** A subscription that a change of plan is to replace or has replaced. */
export interface ReplacedRow {
  id: string;
  subscriptionPda: string;
  status: SubscriptionStatus;
  paidThrough: Date | null;
  trialEndsAt: Date | null;
  startsAt: Date | null;
  /** The credit of its customer, with what its open invoice has spent, in base units. */
  credit: bigint;
  /** Chain time of the end; null while the subscription is live. */
  endedAt: Date | null;
  /** The database's time of the end, or of the replacement (stoppedAt); null before. */
  stoppedAt: Date | null;
  /** The newer registration of the account. It has taken over what this registration had left. */
  renewedBy: string | null;
  replaces: string | null;
  replacedBy: string | null;
  externalId: string | null;
  /** A JSON object as text. */
  metadata: string;
  ownIdsFrom: OwnIdsSource | null;
}

/** Reads a subscription that is to be replaced. `forUpdate` locks its row. */
export async function readReplaced(
  sql: Queryable,
  id: string,
  { forUpdate = false } = {},
): Promise<ReplacedRow | undefined> {
  // Locks before reading, so that the read sees what another lock holder has committed.
  if (forUpdate) await lockSubscription(sql, id);
  const [row] = await sql<ReplacedRow[]>`
    select s.id, s.subscription_pda, s.status, w.paid_through, s.trial_ends_at, s.starts_at,
      ${creditOf(sql)} + ${reservedCredit(sql)} as credit, s.ended_at, ${stoppedAt(sql)} as stopped_at, s.replaces,
      s.replaced_by, s.external_id,
      s.metadata::text as metadata, s.own_ids_from, (
        select n.id from subscriptions n where n.subscription_pda = s.subscription_pda
          and n.id > s.id and ${isSameAccount(sql)}
        order by n.id desc limit 1
      ) as renewed_by
    from subscriptions s join subscription_work w on w.subscription_id = s.id
    where s.id = ${id}`;
  return row;
}

/**
 * Like readReplaced(), but reads the newest registration of the account. After a change of plan was
 * offered for a registration, the registration may end and its account may be registered again.
 */
export async function readNewestReplaced(
  sql: Queryable,
  id: string,
  options: { forUpdate?: boolean } = {},
): Promise<ReplacedRow | undefined> {
  let row = await readReplaced(sql, id, options);
  while (row !== undefined && row.renewedBy !== null)
    row = await readReplaced(sql, row.renewedBy, options);
  return row;
}

/** Whether a payment of a subscription at one of these addresses may still land. */
export async function hasOpenAttempt(sql: Queryable, pdas: readonly string[]): Promise<boolean> {
  const rows = await sql`
    select 1 from payment_attempts
    where subscription_pda = any(${[...pdas]}::text[]) and state = 'open' limit 1`;
  return rows.length > 0;
}

/**
 * SQL condition: a sponsored change of plan by a wallet may still land. `wallet` is the column with
 * the wallet. The credit of this change comes from earlier payments. While the change may land,
 * these payments must not be refunded, and must not become credit again. Ignores the offer
 * `except`.
 */
export const hasSponsoredChange = (
  sql: Queryable,
  wallet: Fragment,
  except: string | null = null,
) => sql`
  exists (select from sponsorships o where o.wallet = ${wallet} and o.replaces is not null
    and o.state = 'open' and o.offer_id is distinct from ${except}::uuid)`;

/**
 * Tells whether a sponsored change of plan of the subscription's wallet may still land. Ignores the
 * offer `except`.
 */
export async function hasOpenChange(
  sql: Queryable,
  subscriptionId: string,
  except: string | null,
): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select ${hasSponsoredChange(sql, sql`s.subscriber_wallet`, except)} as found
    from subscriptions s where s.id = ${subscriptionId}`;
  return row?.found === true;
}

/** A payment for a period, with the fields that domain/invoices/credits.ts needs. */
export interface PaidRow {
  id: string;
  amountGross: bigint;
  amountNet: bigint;
  creditSpent: bigint;
  /** Sum of the finalized refunds. */
  refunded: bigint;
  /**
   * True if a refund was offered to the merchant's wallet and the refund's transfer may still land.
   */
  isRefundPending: boolean;
  coversFrom: Date;
  periodEnd: Date;
  planTotal: bigint;
  /** The amount of the plan that the payment paid for, in base units. */
  planAmount: bigint;
}

/** A registration, and the chain time at which its paid time becomes credit. */
export interface PaidOf {
  id: string;
  at: Date;
}

/**
 * SQL for the payments of an account for time after `at`, recorded by the registration `id` and by
 * earlier registrations of the account. Leaves out payments whose time was taken back. paid_through
 * is not used, because it may be incomplete: perhaps no keeper has read the account since it was
 * registered, or a keeper has collected again since `at`.
 */
const paidParts = (sql: Queryable, { id, at }: PaidOf) => sql`
  select p.id, p.amount_gross, p.amount_net, i.credit_applied as credit_spent, p.period_end,
    case when i.reason = 'foreign' then i.total
      else i.plan_amount + i.discount_amount + i.tax_amount end as plan_total,
    n.amount as plan_amount, coalesce(i.covers_from, p.period_start) as covers_from,
    p.amount_refunded as refunded,
    exists (
      select from refunds where payment_id = p.id and status = 'pending'
    ) as is_refund_pending
  from subscriptions s
    join subscriptions n on n.subscription_pda = s.subscription_pda and n.id <= s.id
      and ${isSameAccount(sql)}
    join payments p on p.subscription_id = n.id join invoices i on i.id = p.invoice_id
  where s.id = ${id} and p.status = 'succeeded' and not p.further
    and not ${isTimeTaken(sql)} and p.period_end > ${at}`;

export function readPaidParts(sql: Queryable, of: PaidOf): Promise<PaidRow[]> {
  return sql<PaidRow[]>`${paidParts(sql, of)} order by p.id`;
}

/** Like readPaidParts(), but locks the payments first (lockPaid). */
export async function lockPaidParts(sql: Transaction, of: PaidOf): Promise<PaidRow[]> {
  for (const { id } of await readPaidParts(sql, of)) await lockPaid(sql, id);
  return readPaidParts(sql, of);
}

/**
 * Marks a subscription as replaced by the subscription `by` from the chain time `replacedAt` on.
 * Revokes the keeper's claim on it. If no cancellation was requested
 * before, records a request to cancel at the time `at` and returns `isFirst` = true. Returns
 * undefined when the subscription has already ended.
 */
export async function markReplaced(
  sql: Transaction,
  id: string,
  { by, at, replacedAt }: { by: string; at: Date; replacedAt: Date },
): Promise<{ isFirst: boolean; cancelRequestedAt: Date } | undefined> {
  const [row] = await sql<{ isFirst: boolean; cancelRequestedAt: Date }[]>`
    with live as (
      select id, cancel_requested_at is null as is_first from subscriptions where id = ${id}
    ), edited as (
      update subscriptions s set replaced_by = ${by}, replaced_at = ${replacedAt},
        stopped_at = coalesce(stopped_at, clock_timestamp()),
        cancel_requested_at = coalesce(cancel_requested_at, ${at}),
        cancel_requested_by = coalesce(cancel_requested_by, 'subscriber'),
        next_payment_due = null, updated_at = now()
      from live where s.id = live.id and s.status in ('active', 'past_due')
      returning s.id, live.is_first, s.cancel_requested_at, s.trial_ends_at, s.created_at
    ), ${takenFromKeepers(sql, atEndOfAccess(sql))}
    select is_first, cancel_requested_at from edited`;
  if (row !== undefined) await voidOpenInvoice(sql, id, 'ended');
  return row;
}

/**
 * Marks a subscription as replaced that has ended since the change of plan landed. Its status and
 * end reason stay. stopped_at becomes the time of the replacement, so that requests of its wallet
 * between the end and the replacement do not count.
 */
export async function markReplacedAfterEnd(
  sql: Transaction,
  id: string,
  { by, replacedAt }: { by: string; replacedAt: Date },
): Promise<void> {
  await sql`
    update subscriptions set replaced_by = ${by}, replaced_at = ${replacedAt},
      stopped_at = clock_timestamp(), updated_at = now()
    where id = ${id} and status in ('cancelled', 'expired') and replaced_by is null`;
}

/** Ends the access of a replaced subscription at `at`, unless its access already ends earlier. */
export async function endReplacedAt(sql: Transaction, id: string, at: Date): Promise<void> {
  await sql`
    update subscriptions set replaced_at = least(replaced_at, ${at}), updated_at = now()
    where id = ${id} and replaced_at > ${at}`;
}

/**
 * Lists the pulled payments of the on-chain period that starts at `periodStart`. Includes the
 * payments of all rows of `subscriptions` with this address. Leaves out extra pulls, and payments
 * that credit covered in full.
 */
export function readRunning(
  sql: Queryable,
  { subscriptionPda, periodStart }: { subscriptionPda: string; periodStart: Date },
): Promise<{ id: string; isRefunded: boolean; isCredited: boolean }[]> {
  return sql<{ id: string; isRefunded: boolean; isCredited: boolean }[]>`
    select p.id, ${creditedPart(sql)} is not null as is_credited,
      ${isRefundedInFull(sql, 'p')} as is_refunded
    from subscriptions r join payments p on p.subscription_id = r.id
    where r.subscription_pda = ${subscriptionPda} and p.period_start = ${periodStart}
      and p.status = 'succeeded' and p.source <> 'credit' and not p.further`;
}
