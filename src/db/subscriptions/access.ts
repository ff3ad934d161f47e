// Reads subscriptions for the access endpoint. Requests that arrive in the same event-loop turn
// share one statement for external ids and one statement for wallets.
import { refundedThrough } from '../invoices/notes.ts';
import type { Queryable } from '../postgres/connect.ts';
import { recordset } from '../postgres/recordset.ts';

/** The subscription fields that decide access (domain/accounts/access.ts). */
export interface AccessTerms {
  status: string;
  paidThrough: Date | null;
  nextPaymentDue: Date | null;
  cancelRequestedAt: Date | null;
  trialEndsAt: Date | null;
  pausedAt: Date | null;
  /** End of a period whose payment was refunded. The period gives no access. */
  refundedThrough: Date | null;
  /**
   * Chain time at which another subscription replaces this subscription; null without a
   * replacement.
   */
  replacedAt: Date | null;
  periodHours: number;
  /** Grace period of the plan; null means the default grace period. */
  graceHours: number | null;
}

/** The further fields that decide access while a collection is late. */
export interface LateTerms extends AccessTerms {
  /** Time to which a change of plan has deferred the first payment. */
  startsAt: Date | null;
  planEndsAt: Date | null;
}

export interface AccessQuestion {
  appId: string;
  /** Exactly one of externalId and wallet is set. */
  externalId: string | null;
  wallet: string | null;
  /** Id of the plan to check; null checks all plans of the app. */
  planId: string | null;
}

export interface AccessSubscription extends LateTerms {
  id: string;
  /** Whether the operator has suspended the subscriber's wallet. */
  isSuspended: boolean;
}

export interface AccessRecord extends AccessQuestion {
  /** Id of the merchant that owns the app. */
  owner: string;
  /** Current time by the database's clock. */
  now: Date;
  subscriptions: AccessSubscription[];
}

/**
 * Maximum number of rows that one SELECT reads for a customer. The limit bounds the cost of the
 * statement.
 */
const MAX_ROWS = 50;

/**
 * Reads the records that answer `questions`. A record has the owner of the app and the customer's
 * subscriptions. A question about an unknown app has no record.
 */
export async function readAccess(
  sql: Queryable,
  questions: readonly AccessQuestion[],
): Promise<AccessRecord[]> {
  const given = questions.map((question, index) => ({ ...question, index }));
  // Each kind of customer id has its own index and therefore its own statement. Most batches
  // contain only one kind.
  const byExternalId = given.filter(({ externalId }) => externalId !== null);
  const byWallet = given.filter(({ wallet }) => wallet !== null);
  const rows = (
    await Promise.all([
      ask(sql, byExternalId, ofExternalId(sql)),
      ask(sql, byWallet, ofWallet(sql)),
    ])
  ).flat();
  const records = new Map<number, AccessRecord>();
  for (const { index, owner, now, id, ...terms } of rows) {
    const question = questions[index];
    if (question === undefined) continue;
    const record = records.get(index) ?? { ...question, owner, now, subscriptions: [] };
    if (id !== null) record.subscriptions.push({ id, ...terms });
    records.set(index, record);
  }
  return [...records.values()];
}

interface AccessRow extends Omit<AccessSubscription, 'id'> {
  index: number;
  owner: string;
  now: Date;
  id: string | null;
}

const terms = (sql: Queryable) => sql`
  id, plan_id, status, next_payment_due, cancel_requested_at, trial_ends_at, paused_at,
    subscription_pda, replaced_by, replaced_at, starts_at, period_hours, subscriber_wallet`;

const ofPlan = (sql: Queryable) => sql`(asked.plan_id is null or plan_id = asked.plan_id)`;

/**
 * SQL for the newest subscriptions of a wallet. Only the wallet itself can add subscriptions, so no
 * one else can push a paid subscription out of the newest rows.
 */
const ofWallet = (sql: Queryable) => sql`
  select ${terms(sql)} from subscriptions where app_id = asked.app_id
    and subscriber_wallet = asked.wallet and ${ofPlan(sql)}
  order by id desc limit ${MAX_ROWS}`;

// Any wallet can register with any external id, so unpaid registrations must not hide a paid one.
// The first two queries therefore read the rows whose paid time or trial ends last. The third reads
// the newest rows, to explain why access is denied, and applies LIMIT before the filter by plan, so
// that it never reads more than MAX_ROWS rows.
const ofExternalId = (sql: Queryable) => sql`
  select ${terms(sql)} from subscriptions where id in (
    (
      select subscription_id from subscription_work join subscriptions on id = subscription_id
      where subscription_work.app_id = asked.app_id
        and subscription_work.external_id = asked.external_id
        and paid_through is not null and ${ofPlan(sql)}
      order by paid_through desc, subscription_id desc limit ${MAX_ROWS}
    ) union (
      select id from subscriptions
      where app_id = asked.app_id and external_id = asked.external_id
        and trial_ends_at is not null and status in ('active', 'past_due') and ${ofPlan(sql)}
      order by trial_ends_at desc, id desc limit ${MAX_ROWS}
    ) union (
      select id from (
        select id, plan_id from subscriptions where app_id = asked.app_id
          and external_id = asked.external_id order by id desc limit ${MAX_ROWS}
      ) as newest where ${ofPlan(sql)}
    )
  )`;

async function ask(
  sql: Queryable,
  asked: readonly (AccessQuestion & { index: number })[],
  subscriptions: ReturnType<typeof ofWallet>,
): Promise<AccessRow[]> {
  if (asked.length === 0) return [];
  return sql<AccessRow[]>`
    select asked.index, a.merchant_id as owner, now() as now, s.id, s.status, w.paid_through,
      s.next_payment_due, s.cancel_requested_at,
      s.trial_ends_at, s.paused_at, ${refundedThrough(sql)} as refunded_through, s.replaced_at, s.starts_at, s.period_hours,
      p.grace_hours, p.ends_at as plan_ends_at, exists (select from suspensions
        where role = 'subscriber' and wallet = s.subscriber_wallet) as is_suspended
    from (${recordset(sql, asked, {
      ...{ index: 'int', appId: 'uuid', externalId: 'text', wallet: 'text', planId: 'uuid' },
    })}) as asked
      cross join lateral (select merchant_id from apps where id = asked.app_id limit 1) as a
      left join lateral (${subscriptions}) as s on true
      left join lateral (
        select paid_through from subscription_work where subscription_id = s.id limit 1
      ) as w on true
      left join lateral (select grace_hours, ends_at from plans where id = s.plan_id limit 1) as p on true`;
}
