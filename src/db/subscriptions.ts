// The API's statements on single subscriptions. subscription-lists.ts has the lists, and
// subscription-work.ts has the keeper's statements.
import type { Queryable, Transaction } from './postgres/connect.ts';
import {
  type CancelRequester,
  type DiscountTerms,
  endedNow,
  type OwnIds,
  type OwnIdsSource,
} from './subscription-changes.ts';

export type SubscriptionStatus = 'active' | 'past_due' | 'cancelled' | 'expired';

export interface SubscriptionRow extends DiscountTerms {
  id: string;
  appId: string;
  planId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  merchantWallet: string;
  status: SubscriptionStatus;
  /** The plan's amount in base units: the maximum that the chain allows per period. */
  amount: bigint;
  periodHours: number;
  trialEndsAt: Date | null;
  pausedAt: Date | null;
  unpausedAt: Date | null;
  /**
   * Chain time of the resume or the registration. The wallet pays only for the part of the running
   * period after this time. null charges the whole period.
   */
  chargedFrom: Date | null;
  /** The first payment is deferred to this time; null unless a change of plan set it. */
  startsAt: Date | null;
  /** Credit from a replaced subscription that no payment has spent yet, in base units. */
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
   * End of a paid period that gives no access, because the period's payment was refunded or turned
   * into credit before the wallet resumed. Null when there is no such period.
   */
  refundedThrough: Date | null;
  /**
   * Start of one of the on-chain account's periods. Null if the account was not read at the
   * registration and no keeper has read it since.
   */
  periodAnchor: Date | null;
  paidThrough: Date | null;
  nextPaymentDue: Date | null;
  cancelRequestedAt: Date | null;
  cancelRequestedBy: CancelRequester | null;
  cancelledAt: Date | null;
  delegationRevokedAt: Date | null;
  /** Time of the first failure of the payment that is past due. */
  pastDueSince: Date | null;
  /** Why the last attempt of the past-due payment failed; null unless a payment is past due. */
  lastFailureReason: string | null;
  endReason: string | null;
  /** Time at which the merchant lifted the end. */
  reinstatedAt: Date | null;
  externalId: string | null;
  /**
   * A JSON object as text. If the column were read as an object, postgres.js would convert the
   * object's keys to camel case.
   */
  metadata: string;
  /** Who set externalId and metadata last; null when neither is set. */
  ownIdsFrom: OwnIdsSource | null;
  /**
   * Id of the customer's other subscription that was live when this subscription landed on chain.
   */
  duplicateOf: string | null;
  /** The plan's graceHours; null means the default (domain/accounts/access.ts). */
  graceHours: number | null;
  planEndsAt: Date | null;
  createdAt: Date;
  updatedAt: Date;
}

export interface NewRegistration extends OwnIds, Partial<DiscountTerms> {
  planId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  /** Chain time at which the first payment is due if there is no trial. */
  dueAt: Date;
  /** Chain time at which the trial begins: the start of the period. Null means no trial. */
  trialFrom: Date | null;
  /** Length of the checkout session's trial; null or undefined means the plan's trial. */
  trialHours?: number | null;
  /**
   * Chain time of the resume or the registration. The wallet pays only for the part of the running
   * period after this time. null charges the whole period.
   */
  chargedFrom: Date | null;
  /** Slot at which the account was read. Account states from older slots are ignored. */
  observedSlot: bigint;
  /**
   * init_id of the on-chain account. Together with the period start, it distinguishes the account
   * from a later account at the same address.
   */
  initId: bigint;
  periodStart: Date;
  /**
   * The change of plan in which the account was opened or resumed: the replaced subscription, the
   * credit, and the time to which the first payment is deferred.
   */
  replaces?: { id: string; credit: bigint; startsAt: Date | null } | undefined;
  /**
   * True for a registration by a keeper. When the wallet later registers the same account, the
   * wallet gets the keeper's registration.
   */
  isUnclaimed?: boolean;
  /**
   * True for a registration by a keeper that no offer fits. The first payment is then due
   * WAIT_FOR_WALLET_SECONDS after `dueAt`, so that the wallet's own registration can set the terms
   * of its checkout session before.
   */
  isWithoutOffer?: boolean;
  /**
   * With `isUnclaimed`: the ended or replaced registration of the same account after which
   * `isUnclaimed` may register it again (domain/subscribing/ended.ts). Undefined for none.
   */
  renews?: string | undefined;
  ownIdsFrom?: OwnIdsSource | null;
  /**
   * Whether a sponsored transaction has opened the account and made the first payment. The
   * registration is then stored even if its plan, session or wallet no longer allows a
   * subscription.
   */
  hasLanded?: boolean;
}

/** See isWithoutOffer. */
const WAIT_FOR_WALLET_SECONDS = 120;

/** The newest existing registration of an address. */
export interface EarlierRegistration {
  id: string;
  status: SubscriptionStatus;
  periodHours: number;
  /**
   * True if the merchant force-cancelled the registration and has not allowed a new one since. To
   * allow it, the merchant reinstates the registration, or creates a checkout session of its plan
   * for the registration's externalId or wallet.
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
   * The database's time at which the registration ended or was replaced, whichever was first. Null
   * while it is live and not replaced.
   */
  stoppedAt: Date | null;
  /** Time at which the merchant lifted the end. */
  reinstatedAt: Date | null;
}

/** The columns of a SubscriptionRow, selected from `subscriptions s`. */
export const columns = (
  sql: Queryable,
) => sql`s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, s.status, s.amount,
  s.period_hours,
  s.trial_ends_at, s.discount_percent, s.discount_amount, s.discount_periods, s.paused_at,
    s.unpaused_at, s.charged_from, s.refunded_through, s.starts_at, s.credit, s.replaces,
    s.replaced_by, s.replaced_at,
  coalesce(s.period_anchor, s.chain_period_start) as period_anchor,
  s.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at,
    s.delegation_revoked_at, s.past_due_since, s.end_reason, s.reinstated_at,
  s.external_id, s.metadata::text as metadata, s.own_ids_from, s.duplicate_of, s.created_at,
    s.updated_at,
  case when s.status = 'past_due' then (
    select failed.failure_reason from payments failed
    where failed.subscription_id = s.id and failed.status = 'failed'
    order by failed.occurred_at desc, failed.id desc limit 1) end as last_failure_reason`;

/**
 * SQL for the time at which the registration `s` ended or was replaced. A daemon of a release
 * without the column stopped_at leaves it null; updated_at is then no earlier than the end.
 */
export const stoppedAt = (sql: Queryable) => sql`
  case when s.status in ('cancelled', 'expired') or s.replaced_by is not null
    then coalesce(s.stopped_at, s.updated_at) end`;

/** The columns of an EarlierRegistration, selected from `subscriptions s`. */
const earlierColumns = (sql: Queryable) => sql`
  s.id, s.status, s.period_hours, s.chain_init_id, s.chain_period_start, s.replaced_by,
    s.subscriber_wallet, s.created_at, ${stoppedAt(sql)} as stopped_at, s.reinstated_at,
  coalesce(s.end_reason = 'forced', false) and s.reinstated_at is null and not exists (
    select from checkout_sessions c where c.app_id = s.app_id and c.plan_id = s.plan_id
      and c.id >= id_at(s.cancelled_at) and c.created_at > s.cancelled_at
      and (c.external_id = s.external_id or c.for_wallet = s.subscriber_wallet)
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
 * Ends a registration whose address now has a newer registration. `endReason`: `resubscribed` if
 * the account was closed and reopened, `replaced` if the wallet changed to another plan and back.
 * Returns undefined when the registration has already ended.
 */
export async function endReplacedRegistration(
  sql: Queryable,
  id: string,
  endReason: 'resubscribed' | 'replaced' = 'resubscribed',
): Promise<{ cancelledAt: Date } | undefined> {
  const [row] = await sql<{ cancelledAt: Date }[]>`
    update subscriptions set status = 'cancelled', cancelled_at = date_trunc('milliseconds', now()),
      cancel_requested_at = coalesce(cancel_requested_at, date_trunc('milliseconds', now())),
      cancel_requested_by = coalesce(cancel_requested_by, 'subscriber'),
        end_reason = ${endReason}, past_due_since = null,
      ended_at = ${endedNow(sql, id)}, stopped_at = coalesce(stopped_at, clock_timestamp()),
      next_payment_due = null, due_at = now(), lease_until = null, claim_id = null,
        updated_at = now()
    where id = ${id} and status in ('active', 'past_due')
    returning cancelled_at`;
  return row;
}

/**
 * SQL condition: the payment with this table alias was refunded in full. If a credit paid a part of
 * the price, the condition is false, because credit is never refunded.
 */
export const isRefundedInFull = (sql: Queryable, payment: 'p' | 'paid') => {
  const of = sql(payment);
  return sql`(${of}.amount_net > 0 and ${of}.credit_spent = 0
    and ${of}.amount_refunded >= ${of}.amount_net)`;
};

/** SQL condition: the payment of the last paid period of `subscriptions s` was refunded in full. */
export const isRefunded = (sql: Queryable) => sql`exists (
  select from payments paid where paid.subscription_id = s.id and paid.status = 'succeeded'
    and paid.period_end = s.paid_through and not paid.further
    and ${isRefundedInFull(sql, 'paid')})`;

/** Serializes registrations of an address until the transaction ends. */
export async function lockRegistrations(sql: Transaction, subscriptionPda: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${subscriptionPda}, 0))`;
}

/**
 * Sets refunded_through of an ended registration if its last paid period was refunded, so that this
 * period gives no access. Called when the wallet has resumed the account.
 */
export async function endRefundedAccess(sql: Queryable, id: string): Promise<void> {
  await sql`
    update subscriptions s set refunded_through = paid_through, updated_at = now()
    where id = ${id} and paid_through is not null and ${isRefunded(sql)}`;
}

/**
 * Stores a registration with the plan's terms and returns its id. Returns undefined if the plan is
 * not active and `hasLanded` is not set. Adds a trial if the wallet has had none in the app. Trial
 * and isWithoutOffer do not delay due_at, so that a keeper reads the account at once. The payment
 * for which isWithoutOffer waits is not announced, because it is no renewal. If the address has a
 * live registration, throws a PostgresError for the constraint one_live_registration_per_pda.
 */
export async function insertRegistration(
  sql: Queryable,
  registration: NewRegistration,
): Promise<string | undefined> {
  const { planId, subscriptionPda, subscriberWallet, dueAt, observedSlot } = registration;
  const {
    initId,
    periodStart,
    trialFrom,
    chargedFrom,
    externalId = null,
    metadata = {},
  } = registration;
  const { discountPercent = null, discountAmount = null, discountPeriods = null } = registration;
  const { isUnclaimed = false, ownIdsFrom = null, hasLanded = false } = registration;
  const { replaces, trialHours = null, isWithoutOffer = false } = registration;
  const due = new Date(dueAt.getTime() + (isWithoutOffer ? WAIT_FOR_WALLET_SECONDS * 1000 : 0));
  const startsAt = replaces?.startsAt ?? null;
  // Without this lock, two concurrent registrations of one wallet would both get a trial.
  await sql`
    select pg_advisory_xact_lock(hashtextextended(app_id::text || ${subscriberWallet}, 0))
      from plans where id = ${planId} and coalesce(${trialHours}::int, trial_hours) is not null`;
  const [row] = await sql<{ id: string }[]>`
    insert into subscriptions (id, created_at, updated_at, app_id, plan_id, subscription_pda,
      subscriber_wallet, amount, period_hours, trial_ends_at, next_payment_due, due_at,
      observed_slot, chain_init_id, chain_period_start, charged_from, external_id, metadata,
        discount_percent, discount_amount, discount_periods, unclaimed, own_ids_from, replaces,
        credit, starts_at, without_offer, announced_due, announced_notices)
    select new_id, made_at(new_id), made_at(new_id), app_id, id, ${subscriptionPda},
      ${subscriberWallet}, amount, period_hours,
      trial.ends_at, greatest(${due}, trial.ends_at, ${startsAt}::timestamptz), ${dueAt},
      ${observedSlot},
      ${initId}, ${periodStart}, ${chargedFrom}, ${externalId}, ${JSON.stringify(metadata)}::text::jsonb,
        ${discountPercent}::int,
      ${discountAmount}::int8, ${discountPeriods}::int, ${isUnclaimed}, ${ownIdsFrom},
      ${replaces?.id ?? null}::uuid, ${replaces?.credit ?? 0n}::int8, ${startsAt}::timestamptz,
      ${isWithoutOffer}, case when ${isWithoutOffer} then ${due}::timestamptz end,
      case when ${isWithoutOffer} then coalesce(cardinality(notice_hours), 1) else 1 end
    from plans, uuid_v7() as new_id, lateral (
      select ${trialFrom}::timestamptz + coalesce(${trialHours}::int, trial_hours)
        * interval '1 hour' as ends_at
      where not exists (select from subscriptions where app_id = plans.app_id
        and subscriber_wallet = ${subscriberWallet} and trial_ends_at is not null)
      union all select null limit 1
    ) as trial
    where id = ${planId} and (status = 'active' or ${hasLanded})
    returning id`;
  return row?.id;
}

/** Tells whether the wallet already had a trial in this app. A wallet gets one trial per app. */
export async function hadTrial(sql: Queryable, appId: string, wallet: string): Promise<boolean> {
  const rows = await sql`
    select 1 from subscriptions where app_id = ${appId} and subscriber_wallet = ${wallet}
      and trial_ends_at is not null`;
  return rows.length > 0;
}

export async function findSubscription(
  sql: Queryable,
  id: string,
): Promise<SubscriptionRow | undefined> {
  const [row] = await sql<SubscriptionRow[]>`
    select ${columns(sql)}, m.wallet as merchant_wallet, p.grace_hours,
      p.ends_at as plan_ends_at
    from subscriptions s join plans p on p.id = s.plan_id join apps a on a.id = s.app_id
      join merchants m on m.id = a.merchant_id
    where s.id = ${id}`;
  return row;
}

/** Finds the name of a subscription's plan. */
export async function findPlanName(sql: Queryable, id: string): Promise<string | undefined> {
  const [row] = await sql<{ name: string }[]>`
    select p.name from subscriptions s join plans p on p.id = s.plan_id where s.id = ${id}`;
  return row?.name;
}

/**
 * Finds the id of the live registration of an address. Ignores a registration that a change of plan
 * has replaced.
 */
export async function findLiveRegistration(
  sql: Queryable,
  subscriptionPda: string,
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select id from subscriptions where subscription_pda = ${subscriptionPda}
      and status in ('active', 'past_due') and replaced_by is null`;
  return row?.id;
}
