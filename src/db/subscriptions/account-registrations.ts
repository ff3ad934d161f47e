// The registrations of one on-chain account. After a registration has ended, its account may
// continue to exist and get a new registration, which takes over the paid time of the ended one.
import { readCreditOf } from '../invoices/credits.ts';
import { voidOpenInvoice } from '../invoices/invoices.ts';
import { creditedPart, isTimeTaken } from '../invoices/notes.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import { takenFromKeepers } from './leases.ts';
import { endedNow } from './merchant-edits.ts';
import type { SubscriptionStatus } from './subscriptions.ts';

/** The newest existing registration of an address. */
export interface EarlierRegistration {
  id: string;
  status: SubscriptionStatus;
  periodHours: number;
  /**
   * True if the merchant force-cancelled the registration and has not allowed a new one since. The
   * merchant allows a new one (1) by reinstating the registration, (2) by a checkout session of its
   * plan for its wallet, or for its externalId unless the wallet has set the externalId.
   */
  isBarred: boolean;
  /** The subscription that replaced this registration in a change of plan. */
  replacedBy: string | null;
  /** Null when the account was not read at registration. */
  chainInitId: bigint | null;
  chainPeriodStart: Date | null;
  subscriberWallet: string;
  createdAt: Date;
  /**
   * The database's time at which the registration ended or was replaced, whichever was first. If it
   * was replaced after its end, the time of the replacement. Null while it is live and not
   * replaced.
   */
  stoppedAt: Date | null;
  /** Time at which the merchant lifted the end. */
  reinstatedAt: Date | null;
}

/**
 * SQL for the time at which the registration `s` ended or was replaced. Older releases do not write
 * stopped_at. In this case updated_at is used, which is not earlier than the end.
 */
export const stoppedAt = (sql: Queryable) => sql`
  case when s.status in ('cancelled', 'expired') or s.replaced_by is not null
    then coalesce(s.stopped_at, s.updated_at) end`;

/**
 * The columns of an EarlierRegistration, selected from `subscriptions s`. cancelled_at is cut to
 * milliseconds, so a session counts from the next millisecond on. An id that the wallet has set
 * names no customer.
 */
const earlierColumns = (sql: Queryable) => sql`
  s.id, s.status, s.period_hours, s.chain_init_id, s.chain_period_start, s.replaced_by,
    s.subscriber_wallet, s.created_at, ${stoppedAt(sql)} as stopped_at, s.reinstated_at,
  coalesce(s.end_reason = 'forced', false) and s.reinstated_at is null and not exists (
    select from checkout_sessions c where c.app_id = s.app_id and c.plan_id = s.plan_id
      and c.id >= id_at(s.cancelled_at)
      and date_trunc('milliseconds', c.created_at) > s.cancelled_at
      and ((c.external_id = s.external_id and s.own_ids_from in ('checkout', 'merchant'))
        or c.for_wallet = s.subscriber_wallet)
  ) as is_barred`;

/**
 * Finds the newest registration of an address. `forUpdate` locks its row until the transaction
 * ends.
 */
export async function findNewestRegistration(
  sql: Queryable,
  subscriptionPda: string,
  { forUpdate = false } = {},
): Promise<EarlierRegistration | undefined> {
  const [row] = await sql<EarlierRegistration[]>`
    select ${earlierColumns(sql)} from subscriptions s
    where s.subscription_pda = ${subscriptionPda} order by s.id desc limit 1
    ${forUpdate ? sql`for no key update` : sql``}`;
  return row;
}

/** Finds the newest registration of each of these addresses, by address. */
export async function findNewestRegistrations(
  sql: Queryable,
  pdas: readonly string[],
): Promise<Map<string, EarlierRegistration>> {
  const rows = await sql<(EarlierRegistration & { subscriptionPda: string })[]>`
    select distinct on (s.subscription_pda) s.subscription_pda, ${earlierColumns(sql)}
    from subscriptions s where s.subscription_pda = any(${[...pdas]}::text[])
    order by s.subscription_pda, s.id desc`;
  return new Map(rows.map((row) => [row.subscriptionPda, row]));
}

/**
 * SQL condition: the registrations n and s of one address belong to the same on-chain account. Two
 * registrations of the account have the same init_id and the same period boundaries. If one of
 * these values is unknown, the condition is true.
 */
export const isSameAccount = (sql: Queryable): Fragment =>
  isAccountOf(sql, { initId: sql`n.chain_init_id`, periodStart: sql`n.chain_period_start` });

/** SQL condition: the registration s belongs to this account. True if a value is unknown. */
const isAccountOf = (
  sql: Queryable,
  { initId, periodStart }: { initId: Fragment; periodStart: Fragment },
): Fragment => sql`coalesce(
  ${initId} = s.chain_init_id and extract(epoch
    from ${periodStart} - s.chain_period_start)::int8 % (s.period_hours * 3600) = 0,
  true)`;

/** What an ended registration has left for the next registration of its account. */
export interface Remainder {
  /** End of the running period, if a credit has paid for it or it was forgiven. */
  paidThrough: Date | null;
  /**
   * The sum (base units) that the chain counts as pulled in the period that ends at paidThrough.
   */
  periodPulled: bigint;
  /** Time to which a change of plan has deferred the first payment, if this time is still ahead. */
  startsAt: Date | null;
  /**
   * The subscription that a change of plan replaced. Set if the change defers the first payment, or
   * if its credit has to pay the rest of a credited running period (applyCover).
   */
  replaces: string | null;
}

/**
 * Reads what the newest registration of an account has left at the chain time `now`. Undefined if
 * this registration is live, or if no registration of the address belongs to this account. Ignores
 * the payments `except`, because their unused parts become a credit.
 */
export async function readRemainder(
  sql: Queryable,
  account: { subscriptionPda: string; initId: bigint; periodStart: Date },
  { now, except = [] }: { now: Date; except?: readonly string[] | undefined },
): Promise<Remainder | undefined> {
  const { subscriptionPda } = account;
  const initId = sql`${account.initId}::int8`;
  const periodStart = sql`${account.periodStart}::timestamptz`;
  const [row] = await sql<Remainder[]>`
    select paid.paid_through, coalesce(paid.period_pulled, 0) as period_pulled,
      case when s.starts_at > ${now} and s.replaced_by is null then s.starts_at end as starts_at,
      case when s.replaced_by is null and (s.starts_at > ${now} or (w.paid_through is null
        and exists (
          select from subscriptions r join payments p on p.subscription_id = r.id
          where r.subscription_pda = s.subscription_pda and ${creditedPart(sql)} is not null
            and p.period_end > ${now}
        ))) then s.replaces end as replaces
    from subscriptions s join subscription_work w on w.subscription_id = s.id left join lateral (
      select w.paid_through, s.period_pulled
      from invoices i
      where i.subscription_pda = s.subscription_pda and i.reason = 'period'
        and i.void_reason = 'forgiven' and i.covers_to = w.paid_through
        and w.paid_through > ${now}
      union all
      select w.paid_through, s.period_pulled
      from subscriptions r join payments p on p.subscription_id = r.id
      where r.subscription_pda = s.subscription_pda and p.status = 'succeeded'
        and p.source = 'credit' and not ${isTimeTaken(sql)}
        and p.id <> all(${[...except]}::uuid[])
        and p.period_end = w.paid_through and w.paid_through > ${now}
      limit 1
    ) as paid on true
    where s.id = (
      select id from subscriptions where subscription_pda = ${subscriptionPda}
      order by id desc limit 1
    ) and s.status in ('cancelled', 'expired') and ${isAccountOf(sql, { initId, periodStart })}`;
  return row;
}

/**
 * Ends a registration whose address now has a newer registration. `endReason`: `resubscribed` if
 * the account was closed and reopened, `replaced` if the wallet changed to another plan and back.
 * Returns the time of the end and the customer's credit (base units), or undefined when the
 * registration has already ended.
 */
export async function endReplacedRegistration(
  sql: Transaction,
  id: string,
  endReason: 'resubscribed' | 'replaced' = 'resubscribed',
): Promise<{ cancelledAt: Date; credit: bigint } | undefined> {
  const [row] = await sql<{ cancelledAt: Date }[]>`
    with edited as (
      update subscriptions set status = 'cancelled',
        cancelled_at = date_trunc('milliseconds', now()),
        cancel_requested_at = coalesce(cancel_requested_at, date_trunc('milliseconds', now())),
        cancel_requested_by = coalesce(cancel_requested_by, 'subscriber'),
        end_reason = ${endReason}, past_due_since = null,
        ended_at = ${endedNow(sql, id)}, stopped_at = coalesce(stopped_at, clock_timestamp()),
        next_payment_due = null, updated_at = now()
      where id = ${id} and status in ('active', 'past_due')
      returning id, cancelled_at
    ), ${takenFromKeepers(sql, sql`now()`)}
    select cancelled_at from edited`;
  if (row === undefined) return undefined;
  await voidOpenInvoice(sql, id, 'ended');
  return { ...row, credit: await readCreditOf(sql, id) };
}
