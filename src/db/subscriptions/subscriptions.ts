// The API's statements on single subscriptions. lists.ts has the lists, and work.ts the keeper's
// statements.
import { creditOf } from '../invoices/credits.ts';
import { refundedThrough } from '../invoices/notes.ts';
import { type OpenColumns, openColumns, periodsLeft, withOpen } from '../invoices/standing.ts';
import type { DiscountTerms } from '../offers/terms.ts';
import type { Queryable, Transaction } from '../postgres/connect.ts';
import type { Fragment } from '../postgres/lists.ts';
import type { CancelRequester, OwnIds, OwnIdsSource } from './merchant-edits.ts';

export type SubscriptionStatus = 'active' | 'past_due' | 'cancelled' | 'expired';

export interface SubscriptionRow extends DiscountTerms, OpenColumns {
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
  /** Time from which it is billed (SubscriptionState); null: from its first period. */
  billedFrom: Date | null;
  /** The first payment is deferred to this time; null unless a change of plan set it. */
  startsAt: Date | null;
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

/** What a new registration takes over from earlier ones. */
export interface TakenTerms {
  /** The subscription that a change of plan replaces; null without one. */
  replaces: string | null;
  /** Base units. */
  credit: bigint;
  /** Time to which the first payment is deferred. */
  startsAt: Date | null;
  /** End of the running period, if a credit has paid for it or it was forgiven. */
  paidThrough: Date | null;
  /**
   * The sum (base units) that the chain counts as pulled in the period that ends at paidThrough.
   */
  periodPulled: bigint;
}

export interface NewRegistration extends OwnIds, Partial<DiscountTerms> {
  planId: string;
  subscriptionPda: string;
  subscriberWallet: string;
  /** Chain time at which the first payment is due if there is no trial. */
  dueAt: Date;
  /** Chain time at which the trial begins: the start of the period. Null means no trial. */
  trialFrom: Date | null;
  /**
   * Hours of the trial of the offer or the checkout session; 0 without a trial. Null or undefined
   * means the plan's trial.
   */
  trialHours?: number | null;
  /**
   * Chain time of the resume or the registration. The wallet pays only for the part of the running
   * period after this time. null charges the whole period.
   */
  billedFrom: Date | null;
  /** Slot at which the account was read. Account states from older slots are ignored. */
  observedSlot: bigint;
  /**
   * init_id of the on-chain account. Together with the period start, it distinguishes the account
   * from a later account at the same address.
   */
  initId: bigint;
  periodStart: Date;
  /**
   * What the registration takes over from the subscription that a change of plan replaces, and from
   * the account's ended registration.
   */
  takes?: TakenTerms | undefined;
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
  ownIdsFrom?: OwnIdsSource | null;
  /** The id of a checkout session's discount: that of the session. A new id by default. */
  discountId?: string;
  /**
   * Whether a sponsored transaction has opened the account and made the first payment. The
   * registration is then stored even if its plan, session or wallet no longer allows a
   * subscription.
   */
  hasLanded?: boolean;
  /**
   * Whether the account comes from a change of plan or from a relayed transaction. Both started
   * while the plan was active, so the registration is stored even if the plan is sunset now.
   */
  isOffered?: boolean;
  /**
   * Set if the account of a sponsored sign-up is gone. The registration is then stored as ended at
   * `dueAt`. Its id is as old as the signature of the sponsor, so that the registrations of later
   * accounts at the address stay newer.
   */
  gone?: { signedAt: Date };
}

/** See isWithoutOffer. */
const WAIT_FOR_WALLET_SECONDS = 120;

/** The columns of subscriptions that columns() reads, besides those of subscription_work. */
export const readColumns = (sql: Queryable) => sql`
  id, app_id, plan_id, subscription_pda, subscriber_wallet, status, amount, period_hours,
  trial_ends_at, discount_percent, discount_amount, discount_id, discount_periods, paused_at,
  billed_from, starts_at, customer_id, replaces, replaced_by, replaced_at,
  period_anchor, chain_period_start, next_payment_due, cancel_requested_at,
  cancel_requested_by, cancelled_at, delegation_revoked_at, past_due_since, end_reason,
  reinstated_at, external_id, metadata, own_ids_from, duplicate_of, created_at, updated_at`;

/**
 * The columns of a SubscriptionRow, from `subscriptions s`, its `subscription_work w` and
 * withOpen().
 */
export const columns = (
  sql: Queryable,
) => sql`s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, s.status, s.amount,
  s.period_hours,
  s.trial_ends_at, s.discount_percent, s.discount_amount, ${periodsLeft(sql)} as discount_periods, s.paused_at,
    s.billed_from, ${refundedThrough(sql)} as refunded_through, s.starts_at, ${creditOf(sql)} as credit, s.replaces,
    s.replaced_by, s.replaced_at,
  coalesce(s.period_anchor, s.chain_period_start) as period_anchor,
  w.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancel_requested_by, s.cancelled_at,
    s.delegation_revoked_at, s.past_due_since, s.end_reason, s.reinstated_at,
  s.external_id, s.metadata::text as metadata, s.own_ids_from, s.duplicate_of, s.created_at,
    s.updated_at, ${openColumns(sql)},
  case when s.status = 'past_due' then (
    select failed.failure_reason from payments failed
    where failed.subscription_id = s.id and failed.status = 'failed'
    order by failed.occurred_at desc, failed.id desc limit 1) end as last_failure_reason`;

/** Serializes registrations of an address until the transaction ends. */
export async function lockRegistrations(sql: Transaction, subscriptionPda: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${subscriptionPda}, 0))`;
}

/**
 * Stores a registration with the plan's terms and returns its id. Returns undefined if the plan is
 * not active, unless `hasLanded` or `isOffered` is set. Adds a trial if neither the wallet nor the
 * customer has had one in the app; the caller holds the lock of the customer. Trial and
 * isWithoutOffer do not delay due_at, so that a keeper reads the account at once. The payment for
 * which isWithoutOffer waits is not announced, because it is no renewal. If the address has a live
 * registration, throws a PostgresError for the constraint one_live_registration_per_pda.
 */
export async function insertRegistration(
  sql: Queryable,
  registration: NewRegistration,
): Promise<string | undefined> {
  const { dueAt, observedSlot, takes } = registration;
  await lockTrials(sql, registration);
  const [row] = await sql<{ id: string }[]>`
    with registered as (
      ${insertRow(sql, registration)} returning id, app_id, external_id, subscriber_wallet
    ), worked as (
      insert into subscription_work (subscription_id, app_id, external_id, due_at, observed_slot,
        paid_through)
      select id, app_id, external_id, ${dueAt}::timestamptz, ${observedSlot}::int8,
        ${takes?.paidThrough ?? null}::timestamptz
      from registered
    ), searched as (
      insert into searched_wallets (wallet) select subscriber_wallet from registered
      on conflict do nothing
    )
    select id from registered`;
  return row?.id;
}

/** SQL that inserts the row of a registration into subscriptions, if it may be stored. */
function insertRow(sql: Queryable, registration: NewRegistration): Fragment {
  const { planId, subscriptionPda, subscriberWallet, dueAt, initId, periodStart } = registration;
  const { trialFrom, billedFrom, externalId = null, metadata = {} } = registration;
  const { discountPercent = null, discountAmount = null, discountPeriods = null } = registration;
  const { discountId = null } = registration;
  const { isUnclaimed = false, ownIdsFrom = null, hasLanded = false } = registration;
  const { isOffered = false } = registration;
  const { takes, trialHours = null, isWithoutOffer = false, gone } = registration;
  const [isLive, endedAt] = gone === undefined ? [true, null] : [false, dueAt];
  const { replaces = null, startsAt = null } = takes ?? {};
  const { paidThrough = null, periodPulled = 0n } = takes ?? {};
  const due = new Date(dueAt.getTime() + (isWithoutOffer ? WAIT_FOR_WALLET_SECONDS * 1000 : 0));
  const taker = takerOf(registration);
  return sql`
    insert into subscriptions (id, created_at, updated_at, app_id, plan_id, subscription_pda,
      subscriber_wallet, amount, period_hours, trial_ends_at, next_payment_due,
      chain_init_id, chain_period_start, billed_from, external_id, metadata,
        discount_percent, discount_amount, discount_periods, discount_id, unclaimed, own_ids_from, replaces,
        starts_at, period_pulled, without_offer, announced_due,
        announced_notices, status, cancelled_at, ended_at, stopped_at, resumed_at)
    select new_id, made_at(new_id), made_at(new_id), app_id, id, ${subscriptionPda},
      ${subscriberWallet}, amount, period_hours,
      trial.ends_at, case when ${isLive} then greatest(${due}, trial.ends_at,
        ${startsAt}::timestamptz, ${paidThrough}::timestamptz) end,
      ${initId}, ${periodStart}, ${billedFrom}, ${externalId}, ${JSON.stringify(metadata)}::text::jsonb,
        ${discountPercent}::int,
      ${discountAmount}::int8, ${discountPeriods}::int,
      case when num_nonnulls(${discountPercent}::int, ${discountAmount}::int8) > 0
        then coalesce(${discountId}::uuid, uuid_v7()) end, ${isUnclaimed}, ${ownIdsFrom},
      ${replaces}::uuid, ${startsAt}::timestamptz, ${periodPulled}::int8,
      ${isWithoutOffer}, case when ${isWithoutOffer} then ${due}::timestamptz end,
      case when ${isWithoutOffer} then coalesce(cardinality(notice_hours), 1) else 1 end,
      case when ${isLive} then 'active' else 'cancelled' end, ${endedAt}::timestamptz,
      ${endedAt}::timestamptz, case when ${isLive} then null else clock_timestamp() end,
      ${dueAt}::timestamptz
    from plans, coalesce(${idSince(sql, gone?.signedAt)}, uuid_v7()) as new_id, lateral (
      select ${trialFrom}::timestamptz + nullif(coalesce(${trialHours}::int, trial_hours), 0)
        * interval '1 hour' as ends_at
      where not exists (${trialsOf(sql, sql`plans.app_id`, taker)})
      union all select null limit 1
    ) as trial
    where id = ${planId} and (status = 'active' or ${hasLanded} or (status = 'sunset' and ${isOffered}))`;
}

/**
 * Locks the trials of a wallet in the plan's app until the transaction ends, if the registration
 * may get one. Without this lock, two concurrent registrations of one wallet would both get a
 * trial.
 */
export async function lockTrials(
  sql: Queryable,
  {
    planId,
    subscriberWallet,
    trialHours = null,
  }: Pick<NewRegistration, 'planId' | 'subscriberWallet' | 'trialHours'>,
): Promise<void> {
  await sql`
    select pg_advisory_xact_lock(hashtextextended(app_id::text || ${subscriberWallet}, 0))
      from plans where id = ${planId} and coalesce(${trialHours}::int, trial_hours) > 0`;
}

/**
 * The wallet and customer whose earlier trials count for a registration. An externalId counts
 * unless a subscriber has set it.
 */
export function takerOf({
  subscriberWallet: wallet,
  externalId = null,
  ownIdsFrom = null,
}: Pick<NewRegistration, 'subscriberWallet' | 'externalId' | 'ownIdsFrom'>): TrialTaker {
  const isVerified = ownIdsFrom === 'checkout' || ownIdsFrom === 'merchant';
  return { wallet, externalId: isVerified ? externalId : null };
}

/** A wallet, and a customer whose externalId a checkout session or the merchant has set. */
export interface TrialTaker {
  wallet: string | null;
  externalId: string | null;
}

/** SQL for a new id with the creation time `since`; null without `since`. */
const idSince = (sql: Queryable, since: Date | null = null): Fragment => sql`
  (left(id_at(${since}::timestamptz)::text, 19) || substr(uuid_v7()::text, 20))::uuid`;

/**
 * Tells whether the wallet, or the customer with this externalId, already had a trial in the app.
 * An externalId counts only if a checkout session or the merchant has set it. Null values are
 * ignored.
 */
export async function hadTrial(sql: Queryable, appId: string, taker: TrialTaker): Promise<boolean> {
  const rows = await sql`${trialsOf(sql, sql`${appId}::uuid`, taker)} limit 1`;
  return rows.length > 0;
}

/** SELECT with a row for each trial of the taker in the app, except that of `except`. */
export const trialsOf = (
  sql: Queryable,
  app: Fragment,
  { wallet, externalId }: TrialTaker,
  except: Fragment = sql`null`,
): Fragment => sql`
  select 1 from subscriptions where app_id = ${app} and trial_ends_at is not null
    and subscriber_wallet = ${wallet}::text and id is distinct from ${except}
  union all
  select 1 from subscriptions where app_id = ${app} and trial_ends_at is not null
    and external_id = ${externalId}::text and own_ids_from in ('checkout', 'merchant')
    and id is distinct from ${except}`;

export async function findSubscription(
  sql: Queryable,
  id: string,
): Promise<SubscriptionRow | undefined> {
  const [row] = await sql<SubscriptionRow[]>`
    select ${columns(sql)}, m.wallet as merchant_wallet, p.grace_hours,
      p.ends_at as plan_ends_at
    from subscriptions s join subscription_work w on w.subscription_id = s.id
      join plans p on p.id = s.plan_id join apps a on a.id = s.app_id
      join merchants m on m.id = a.merchant_id ${withOpen(sql)}
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
