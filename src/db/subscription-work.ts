// The keeper's statements on subscriptions: read, write states, make due. Leases are in
// subscription-leases.ts.
import type { Queryable } from './postgres/connect.ts';
import { claimsTable, type ClaimKey } from './subscription-leases.ts';
import type { SubscriptionStatus } from './subscriptions.ts';

/** The columns that the keeper writes. Times are chain time. */
export interface SubscriptionState {
  status: SubscriptionStatus;
  paidThrough: Date | null;
  nextPaymentDue: Date | null;
  /** The next_payment_due of the last renewal_upcoming. */
  announcedDue: Date | null;
  cancelRequestedAt: Date | null;
  cancelRequestedBy: 'subscriber' | 'merchant' | null;
  cancelledAt: Date | null;
  pastDueSince: Date | null;
  failedAttempts: number;
  delegationRevokedAt: Date | null;
  endReason: string | null;
  dueAt: Date | null;
  periodAnchor: Date | null;
  /**
   * The newest slot by which any registration of the address was decided: no older state of the
   * account is read.
   */
  observedSlot: bigint;
  /** Base units pulled in the period that ends at paidThrough, as far as known. */
  periodPulled: bigint;
  setbacks: number;
  /** Consecutive transactions that failed because of another payment in them. */
  failedPacks: number;
  /** Start of the period whose payment last failed on chain for the subscriber's reason. */
  chainFailurePeriod: Date | null;
  /** Payments of that period that a top-up made due before their retry. */
  earlyTries: number;
  /** Payments left with the discount; null: unlimited, 0: used up. */
  discountPeriods: number | null;
}

export interface KeeperSubscription extends SubscriptionState {
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
  /** Start of the pause; null unless paused. */
  pausedAt: Date | null;
  unpausedAt: Date | null;
  planPda: string;
  planEndsAt: Date | null;
  /** created_at of the on-chain Plan account; null until the plan was seen. */
  planCreatedAt: Date | null;
  merchantWallet: string;
  mint: string;
  treasury: string;
  /** The merchant's own fee; null: the operator's default. */
  feeBps: number | null;
  /** The plan's own dunning; null: the default. */
  retryHours: number[] | null;
  pastDueDays: number | null;
  notices: number;
  /**
   * The subscription has ended, and its address has a newer registration: of the same account, or
   * of others that were opened there since.
   */
  successor: 'same_account' | 'other_account' | null;
  /** Seconds since the registration, by the database's clock. */
  ageSeconds: number;
}

/** A subscription with the further fields of its events. */
export interface KeeperSubscriptionForEvents extends KeeperSubscription {
  planName: string;
  externalId: string | null;
  /** JSON text. */
  metadata: string;
  /** The plan's graceHours; null: the default (domain/access.ts). */
  graceHours: number | null;
  /** The wallet that the merchant signs in with. */
  accountWallet: string;
  /**
   * Row version: Postgres's xmin, the transaction that wrote the row. The same version means that
   * the row is unchanged.
   */
  version: string;
}

/**
 * Whether two registrations n and s of one address are of one account: the same init_id and the
 * same period boundaries, as far as both are known.
 */
const isSameAccount = (sql: Queryable) => sql`coalesce(
          n.chain_init_id = s.chain_init_id and extract(epoch
            from n.chain_period_start - s.chain_period_start)::int8 % (s.period_hours * 3600) = 0,
          true)`;

/**
 * Subscriptions joined with the plan and merchant fields that the keeper needs, in no particular
 * order.
 */
export function readSubscriptions(
  sql: Queryable,
  ids: string[],
): Promise<KeeperSubscriptionForEvents[]> {
  return sql<KeeperSubscriptionForEvents[]>`
    select s.id, s.app_id, s.plan_id, s.subscription_pda, s.subscriber_wallet, s.status, s.amount,
      s.period_hours, s.paid_through,
      s.next_payment_due, s.announced_due, s.cancel_requested_at, s.cancel_requested_by,
        s.cancelled_at, s.past_due_since, s.failed_attempts,
      s.delegation_revoked_at, s.end_reason, s.due_at, s.period_anchor, (
        select max(o.observed_slot) from subscriptions o
          where o.subscription_pda = s.subscription_pda
      ) as observed_slot, s.period_pulled, s.setbacks, s.failed_packs, s.notices,
      s.chain_failure_period, s.early_tries,
      s.trial_ends_at, s.discount_percent, s.discount_amount, s.discount_periods, s.paused_at,
        s.unpaused_at,
      extract(epoch from now() - s.created_at)::float8 as age_seconds,
      case when s.status in ('cancelled', 'expired') then (
        select case when bool_or(${isSameAccount(sql)}) then 'same_account' when count(*) > 0 then
          'other_account' end
        from subscriptions n where n.subscription_pda = s.subscription_pda and n.id > s.id
      ) end as successor,
      p.plan_pda, p.chain_created_at as plan_created_at, p.ends_at as plan_ends_at,
        p.owner as merchant_wallet, p.mint, p.treasury, m.fee_bps, p.retry_hours, p.past_due_days,
      p.name as plan_name, p.grace_hours, s.external_id, s.metadata::text as metadata,
        m.wallet as account_wallet, s.xmin::text as version
    from subscriptions s
    join plans p on p.id = s.plan_id
    join apps a on a.id = s.app_id
    join merchants m on m.id = a.merchant_id
    where s.id = any(${ids}::uuid[])`;
}

/** A state to write, with the claim under which it was decided. */
export interface StateChange {
  id: string;
  claimId: string;
  /**
   * `notices` as the keeper read it. If the counter has moved since, the row becomes due at once.
   */
  notices: number;
  state: SubscriptionState;
  /** A transaction is in flight: renews the lease instead of releasing it. */
  keepsLease: boolean;
  /** Takes a sequence number for an event in the same transaction. */
  withEvent: boolean;
}

/** A written state, with the sequence and id of its event. */
export interface Written {
  id: string;
  sequence: bigint;
  /** Null without an event. */
  eventId: string | null;
  createdAt: Date;
}

/** A change as a row of the JSON parameter. */
function rowOf({ id, claimId, notices, keepsLease, withEvent, state }: StateChange) {
  return {
    id,
    claim_id: claimId,
    notices,
    keeps_lease: keepsLease,
    with_event: withEvent,
    status: state.status,
    paid_through: state.paidThrough,
    next_payment_due: state.nextPaymentDue,
    announced_due: state.announcedDue,
    cancel_requested_at: state.cancelRequestedAt,
    cancel_requested_by: state.cancelRequestedBy,
    cancelled_at: state.cancelledAt,
    past_due_since: state.pastDueSince,
    failed_attempts: state.failedAttempts,
    delegation_revoked_at: state.delegationRevokedAt,
    end_reason: state.endReason,
    due_at: state.dueAt,
    period_anchor: state.periodAnchor,
    observed_slot: state.observedSlot.toString(),
    setbacks: state.setbacks,
    failed_packs: state.failedPacks,
    chain_failure_period: state.chainFailurePeriod,
    early_tries: state.earlyTries,
    discount_periods: state.discountPeriods,
    period_pulled: state.periodPulled.toString(),
  };
}

/**
 * Writes states under their claims and releases the leases unless `keepsLease`; returns the states
 * that were written.
 */
export async function writeStates(
  sql: Queryable,
  changes: StateChange[],
  chainNow: Date,
  leaseSeconds: number,
): Promise<Written[]> {
  return sql<Written[]>`
    update subscriptions s set
      status = v.status, paid_through = v.paid_through, next_payment_due = v.next_payment_due,
        announced_due = v.announced_due,
      cancel_requested_at = v.cancel_requested_at, cancel_requested_by = v.cancel_requested_by,
        cancelled_at = v.cancelled_at, past_due_since = v.past_due_since,
      ended_at = case when v.status in ('cancelled', 'expired') then coalesce(s.ended_at,
        ${chainNow}::timestamptz) end,
      failed_attempts = v.failed_attempts, delegation_revoked_at = v.delegation_revoked_at,
        end_reason = v.end_reason,
      due_at = case when s.notices = v.notices or v.due_at is null then v.due_at else
        least(v.due_at, ${chainNow}) end,
      period_anchor = v.period_anchor, observed_slot = greatest(s.observed_slot, v.observed_slot),
        setbacks = v.setbacks,
      period_pulled = v.period_pulled, failed_packs = v.failed_packs,
        discount_periods = v.discount_periods,
      chain_failure_period = v.chain_failure_period, early_tries = v.early_tries,
      lease_until = case when v.keeps_lease then now() + ${leaseSeconds} * interval '1 second' end,
        claim_id = case when v.keeps_lease then s.claim_id end,
      event_sequence = s.event_sequence + v.with_event::int,
      updated_at = case
        when (s.status, s.paid_through, s.next_payment_due, s.cancel_requested_at, s.cancelled_at,
          s.delegation_revoked_at, s.end_reason)
          is distinct from
          (v.status, v.paid_through, v.next_payment_due, v.cancel_requested_at, v.cancelled_at,
            v.delegation_revoked_at, v.end_reason)
        then now() else s.updated_at end
    from json_to_recordset(${JSON.stringify(changes.map(rowOf))}::text::json) as v (id uuid, claim_id uuid,
      notices int, keeps_lease bool, with_event bool, status text,
      paid_through timestamptz, next_payment_due timestamptz, announced_due timestamptz,
        cancel_requested_at timestamptz, cancel_requested_by text, cancelled_at timestamptz,
      past_due_since timestamptz, failed_attempts int, delegation_revoked_at timestamptz,
        end_reason text, due_at timestamptz,
      period_anchor timestamptz, observed_slot int8, setbacks int, failed_packs int,
        period_pulled int8, discount_periods int,
      chain_failure_period timestamptz, early_tries int)
    where s.id = v.id and s.claim_id = v.claim_id
    returning s.id, s.event_sequence as sequence, case when v.with_event then uuid_v7() end as event_id,
      date_trunc('milliseconds', now()) as created_at`;
}

/**
 * Makes subscriptions due now (chain time) after an on-chain change at `slot`. The raised
 * `notices` makes a keeper that holds a lease read again, and observed_slot makes it ignore older
 * chain state.
 */
export async function makeDue(
  sql: Queryable,
  ids: string[],
  { chainNow, slot }: { chainNow: Date; slot: bigint },
): Promise<void> {
  await sql`
    with changed as (
      select id from subscriptions where id = any(${ids}::uuid[]) and due_at is not null order by id
        for update
    )
    update subscriptions s set notices = s.notices + 1, due_at = least(s.due_at, ${chainNow}),
      observed_slot = greatest(s.observed_slot, ${slot})
    from changed where s.id = changed.id`;
}

/** Rows per statement. */
const RELEASED_AT_ONCE = 20_000;

/**
 * Makes a plan's subscriptions due whose payment was due by this chain time but whose due_at is
 * later; returns how many. The caller holds the plan's lock.
 */
export async function releaseWaiting(
  sql: Queryable,
  planId: string,
  chainNow: Date,
): Promise<number> {
  let released = 0;
  for (;;) {
    const { count } = await sql`
      with waiting as (
        select id from subscriptions
        where plan_id = ${planId} and status in ('active', 'past_due')
          and next_payment_due <= ${chainNow} and due_at > ${chainNow}
        order by id limit ${RELEASED_AT_ONCE} for update
      )
      update subscriptions s set due_at = ${chainNow} from waiting where s.id = waiting.id`;
    released += count;
    if (count < RELEASED_AT_ONCE) return released;
  }
}

/** A payment that may still be sent, with the `notices` of the row. */
export interface CollectableRow {
  id: string;
  notices: number;
}

/**
 * The rows that these claims hold and whose payment may still be sent: live, not paused and not
 * being cancelled.
 */
export function readCollectable(
  sql: Queryable,
  claims: readonly ClaimKey[],
): Promise<CollectableRow[]> {
  return sql<CollectableRow[]>`
    select s.id, s.notices
    from subscriptions s
    join ${claimsTable(sql, claims)} on s.id = c.id and s.claim_id = c.claim_id
    where s.status in ('active', 'past_due') and s.cancel_requested_at is null
      and s.paused_at is null`;
}

/** Ids of the subscriptions with a due_at at these addresses or of these wallets. */
export async function findFollowed(
  sql: Queryable,
  { pdas, wallets }: { pdas: string[]; wallets: string[] },
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select s.id from subscriptions s
    where (s.subscription_pda = any(${pdas}::text[])
      or s.subscriber_wallet = any(${wallets}::text[])) and s.due_at is not null`;
  return rows.map(({ id }) => id);
}

/**
 * The oldest due_at, and the number of due subscriptions without a lease (counted up to 10,000).
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
