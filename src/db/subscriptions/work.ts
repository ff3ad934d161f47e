// The keeper's statements on subscriptions: read them, write their states, make them due.
// leases.ts has the leases.
import { creditOf } from '../invoices/credits.ts';
import { type Invoice, readUnpaidInvoices } from '../invoices/invoices.ts';
import { refundedThrough } from '../invoices/notes.ts';
import { periodsLeft } from '../invoices/standing.ts';
import type { Queryable } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';
import { isSameAccount, stoppedAt } from './account-registrations.ts';
import { changeAddresses, isChangeSigned, isChanging } from './change-offers.ts';
import { claimsTable, type ClaimKey, version } from './leases.ts';
import { isRefunded } from './refunded.ts';
import { stateTypes, type SubscriptionState } from './state.ts';

/** A subscription with its plan, as `select` reads it. */
interface KeeperRow extends SubscriptionState {
  id: string;
  appId: string;
  planId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  amount: bigint;
  periodHours: number;
  trialEndsAt: Date | null;
  discountPercent: number | null;
  discountAmount: bigint | null;
  discountId: string | null;
  /** Number of payments left with the discount. Null: unlimited; 0: used up. */
  discountPeriods: number | null;
  /** Start of the pause; null when the subscription is not paused. */
  pausedAt: Date | null;
  /** The first payment is deferred to this time; null unless a change of plan set it. */
  startsAt: Date | null;
  customerId: string;
  /** The customer's credit in base units. */
  credit: bigint;
  /**
   * `replaces`: the subscription that this one replaced in a change of plan. `replacedBy`: the
   * subscription that replaced this one.
   */
  replaces: string | null;
  replacedBy: string | null;
  /** Chain time at which replacedBy takes over. */
  replacedAt: Date | null;
  /**
   * Whether a change of plan that replaces this subscription is under way: its transaction was
   * recently offered or signed, or it is being sent.
   */
  isChanging: boolean;
  /** Whether a signed change of plan may still land. If true, isChanging is true too. */
  isChangeSigned: boolean;
  /** Addresses of the accounts that unregistered changes of plan of this subscription open. */
  changeAddresses: string[];
  /**
   * Whether a cancellation was requested and the payment for the period that ends at paidThrough
   * was refunded in full. If the wallet then resumes, it gets no access in this period.
   */
  isRefunded: boolean;
  planPda: string;
  planEndsAt: Date | null;
  /** created_at of the on-chain Plan account; null until the plan is seen on chain. */
  planCreatedAt: Date | null;
  merchantWallet: string;
  mint: string;
  treasury: string;
  /** The merchant's own fee; null means the operator's default fee. */
  feeBps: number | null;
  /** The plan's own dunning settings; null means the default. */
  retryHours: number[] | null;
  /** Hours before a payment at which it is announced; null means the default (look-ahead.ts). */
  noticeHours: number[] | null;
  pastDueDays: number | null;
  /** The plan's graceHours; null means the default (domain/accounts/access.ts). */
  graceHours: number | null;
  /** The installation's collection window in seconds (domain/collecting/window.ts). */
  collectionWindow: number;
  notices: number;
  /** Chain time of the end; null while the subscription is live. */
  endedAt: Date | null;
  /** The database's time at which it ended or was replaced; null before (EarlierRegistration). */
  stoppedAt: Date | null;
  /**
   * Set when the subscription has ended and its address has a newer registration. `same_account`:
   * both registrations belong to one on-chain account. `other_account`: the account was closed and
   * a new account was opened at the address.
   */
  successor: 'same_account' | 'other_account' | null;
  /** Seconds since the registration by the database's clock. */
  ageSeconds: number;
  /**
   * Whether a keeper registered it, no offer fits, and its wallet has not registered it since. The
   * first payment then waits for the wallet (NewRegistration.isWithoutOffer).
   */
  isWithoutOffer: boolean;
}

export interface KeeperSubscription extends KeeperRow {
  /** The invoice of the newest period. Null if it is paid, or if an attempt may still pay it. */
  invoice: Invoice | null;
}

/** A subscription with the additional fields that its events contain. */
export interface KeeperSubscriptionForEvents extends KeeperSubscription {
  planName: string;
  externalId: string | null;
  /** A JSON object as text. */
  metadata: string;
  ownIdsFrom: string | null;
  /** The wallet with which the merchant signs in. */
  accountWallet: string;
  /** Unchanged if the subscription was not written and got no notice (leases.ts, version). */
  version: string;
}

/** Reads subscriptions, in no order, with the plan and merchant fields that the keeper needs. */
export async function readSubscriptions(
  sql: Queryable,
  ids: string[],
): Promise<KeeperSubscriptionForEvents[]> {
  const rows = await sql<Omit<KeeperSubscriptionForEvents, 'invoice'>[]>`
    select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, s.status, s.amount,
      s.period_hours, w.paid_through,
      s.next_payment_due, s.announced_due, s.announced_notices, s.cancel_requested_at, s.cancel_requested_by,
        s.cancelled_at, s.past_due_since, s.failed_attempts,
      s.delegation_revoked_at, s.end_reason, w.due_at, s.period_anchor, s.chain_init_id,
        s.chain_period_start, (
        select max(o.observed_slot) from subscriptions n
          join subscription_work o on o.subscription_id = n.id
          where n.subscription_pda = s.subscription_pda
      ) as observed_slot, s.period_pulled, w.setbacks, w.failed_lookups, w.failed_packs,
      w.notices,
      s.chain_failure_period, s.early_tries,
      s.trial_ends_at, s.discount_percent, s.discount_amount, s.discount_id,
      ${periodsLeft(sql)} as discount_periods, s.paused_at,
        s.billed_from, ${refundedThrough(sql)} as refunded_through, s.starts_at, s.customer_id,
        ${creditOf(sql)} as credit, s.replaces,
        s.replaced_by, s.replaced_at, s.ended_at, s.pullable, s.pulled_through,
        s.without_offer and s.unclaimed as is_without_offer,
      ${isChanging(sql)} as is_changing, ${isChangeSigned(sql)} as is_change_signed,
      ${changeAddresses(sql)} as change_addresses,
      ${stoppedAt(sql)} as stopped_at,
      case when s.cancel_requested_at is not null and w.paid_through is not null
        then ${isRefunded(sql)} else false end as is_refunded,
      extract(epoch from now() - s.created_at)::float8 as age_seconds,
      case when s.status in ('cancelled', 'expired') then (
        select case when bool_or(${isSameAccount(sql)}) then 'same_account' when count(*) > 0 then
          'other_account' end
        from subscriptions n where n.subscription_pda = s.subscription_pda and n.id > s.id
      ) end as successor,
      p.plan_pda, p.chain_created_at as plan_created_at, p.ends_at as plan_ends_at,
        p.owner as merchant_wallet, p.mint, p.treasury, m.fee_bps, p.retry_hours, p.notice_hours,
        p.past_due_days,
      p.name as plan_name, p.grace_hours, s.external_id, s.metadata::text as metadata,
        s.own_ids_from, m.wallet as account_wallet, ${version(sql)} as version,
      coalesce((select window_seconds from installation), 0) as collection_window
    from subscriptions s
    join subscription_work w on w.subscription_id = s.id
    join plans p on p.id = s.plan_id
    join apps a on a.id = s.app_id
    join merchants m on m.id = a.merchant_id
    where s.id = any(${ids}::uuid[])`;
  const invoices = await readUnpaidInvoices(sql, ids);
  return rows.map((row) => ({ ...row, invoice: invoices.get(row.id) ?? null }));
}

/** A state to write, with the claim under which the keeper decided it. */
export interface StateChange {
  id: string;
  claimId: string;
  /**
   * Value of the counter `notices` when the keeper read the row. If the counter was raised since
   * then, the row becomes due at once.
   */
  notices: number;
  state: SubscriptionState;
  /** True while a payment is in flight. The lease is then renewed instead of released. */
  keepsLease: boolean;
  /** True to take a sequence number for an event, in the database transaction of the change. */
  withEvent: boolean;
}

/** A written state, with the sequence number and the id for its event. */
export interface Written {
  id: string;
  sequence: bigint;
  /** Null when no event was requested. */
  eventId: string | null;
  createdAt: Date;
}

/**
 * Writes each state whose claim still holds the subscription, and releases the lease. With
 * `keepsLease`, renews the lease instead. Returns the written states.
 */
export async function writeStates(
  sql: Queryable,
  changes: StateChange[],
  chainNow: Date,
  leaseSeconds: number,
): Promise<Written[]> {
  const given = recordset(
    sql,
    changes.map(({ state, ...change }) => ({ ...change, ...state })),
    {
      ...{ id: 'uuid', claimId: 'uuid', notices: 'int', keepsLease: 'bool', withEvent: 'bool' },
      ...stateTypes,
    },
  );
  return sql<Written[]>`
    with v as (
      select * from (${given}) as given
    ), held as (
      select s.id, w.paid_through
      from v join subscriptions s on s.id = v.id
        join subscription_work w on w.subscription_id = v.id and w.claim_id = v.claim_id
      order by s.id
      for update of s, w
    ), worked as (
      update subscription_work w set paid_through = v.paid_through,
        due_at = case when w.notices = v.notices or v.due_at is null then v.due_at else
          least(v.due_at, ${chainNow}) end,
        observed_slot = greatest(w.observed_slot, v.observed_slot), setbacks = v.setbacks,
        failed_lookups = v.failed_lookups, failed_packs = v.failed_packs,
        lease_until = case when v.keeps_lease then now() + ${leaseSeconds} * interval '1 second' end,
        claim_id = case when v.keeps_lease then w.claim_id end
      from held join v on v.id = held.id where w.subscription_id = held.id
    )
    update subscriptions s set
      status = v.status, next_payment_due = v.next_payment_due,
        announced_due = v.announced_due, announced_notices = v.announced_notices,
      cancel_requested_at = v.cancel_requested_at, cancel_requested_by = v.cancel_requested_by,
        cancelled_at = v.cancelled_at, past_due_since = v.past_due_since,
      ended_at = case when v.status in ('cancelled', 'expired') then coalesce(s.ended_at,
        ${chainNow}::timestamptz) end,
      stopped_at = coalesce(s.stopped_at, case when v.status in ('cancelled', 'expired')
        then clock_timestamp() end),
      failed_attempts = v.failed_attempts, delegation_revoked_at = v.delegation_revoked_at,
        end_reason = v.end_reason, period_anchor = v.period_anchor,
        chain_init_id = v.chain_init_id, chain_period_start = v.chain_period_start,
        period_pulled = v.period_pulled, chain_failure_period = v.chain_failure_period,
      early_tries = v.early_tries, billed_from = v.billed_from, pullable = v.pullable,
        pulled_through = v.pulled_through,
      resumed_at = case when s.cancel_requested_at is not null and v.cancel_requested_at is null
        then ${chainNow}::timestamptz else s.resumed_at end,
      event_sequence = s.event_sequence + v.with_event::int,
      updated_at = case
        when (s.status, held.paid_through, s.next_payment_due, s.cancel_requested_at,
          s.cancelled_at, s.delegation_revoked_at, s.end_reason, s.billed_from)
          is distinct from
          (v.status, v.paid_through, v.next_payment_due, v.cancel_requested_at, v.cancelled_at,
            v.delegation_revoked_at, v.end_reason, v.billed_from)
        then now() else s.updated_at end
    from held join v on v.id = held.id where s.id = held.id
    returning s.id, s.event_sequence as sequence, case when v.with_event then uuid_v7() end as event_id,
      date_trunc('milliseconds', now()) as created_at`;
}

/**
 * Makes subscriptions due now (chain time) after an on-chain change at `slot`, except ended ones
 * that no keeper needs to read. Raises `notices`, so that a keeper with a lease reads the
 * subscription again. Raises observed_slot to `slot`, so that the keeper ignores older state.
 */
export async function makeDue(
  sql: Queryable,
  ids: string[],
  { chainNow, slot }: { chainNow: Date; slot: bigint },
): Promise<void> {
  await sql`
    with changed as (
      select w.subscription_id as id
      from subscription_work w join subscriptions s on s.id = w.subscription_id
      where s.id = any(${ids}::uuid[]) and (w.due_at is not null or s.pullable)
      order by 1 for update of w
    )
    update subscription_work w set notices = w.notices + 1, due_at = least(w.due_at, ${chainNow}),
      observed_slot = greatest(w.observed_slot, ${slot})
    from changed where w.subscription_id = changed.id`;
}

/** A subscription whose payment may still be sent, with the current `notices` of its row. */
export interface CollectableRow {
  id: string;
  notices: number;
}

/**
 * Finds the subscriptions that these claims hold and whose payment may still be sent: live
 * subscriptions that are not paused and not being cancelled.
 */
export function readCollectable(
  sql: Queryable,
  claims: readonly ClaimKey[],
): Promise<CollectableRow[]> {
  return sql<CollectableRow[]>`
    select s.id, w.notices
    from subscriptions s join subscription_work w on w.subscription_id = s.id
    join ${claimsTable(sql, claims)} on s.id = c.id and w.claim_id = c.claim_id
    where s.status in ('active', 'past_due') and s.cancel_requested_at is null
      and s.paused_at is null`;
}

/** Finds subscriptions that a keeper still reads, by address or by wallet. Returns their ids. */
export async function findFollowed(
  sql: Queryable,
  { pdas, wallets }: { pdas: string[]; wallets: string[] },
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select s.id from subscriptions s join subscription_work w on w.subscription_id = s.id
    where (s.subscription_pda = any(${pdas}::text[])
      or s.subscriber_wallet = any(${wallets}::text[])) and (w.due_at is not null or s.pullable)`;
  return rows.map(({ id }) => id);
}
