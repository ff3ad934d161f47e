// Queue of e-mails to merchants: about failures, and confirmations of addresses
// (mail-addresses.ts). Each claim of an e-mail has its own attempt number.
// The outcome is written only if the number is still current, so a process whose claim has expired
// changes nothing.
import { secondsSince } from '../postgres/clock.ts';
import type { Queryable } from '../postgres/connect.ts';
import { isAwaited } from './mail-addresses.ts';

export type FailureKind =
  'endpoint_failing' | 'endpoint_disabled' | 'plan_blocked' | 'payments_failed';

type MailKind = FailureKind | 'confirm_address';

/**
 * Content of an e-mail about a failure. The kind decides which fields are set. Times are ISO texts,
 * amounts are USDC base units.
 */
export interface MailData {
  appName?: string;
  url?: string;
  since?: string;
  lastError?: string;
  planName?: string;
  reason?: string;
  count?: number;
  amount?: string;
  payments?: { customer: string; amount: string; reason: string }[];
}

export interface MailRow {
  id: string;
  kind: MailKind;
  day: string | null;
  data: MailData;
  /** Number of this attempt, from 1. */
  attempts: number;
  /**
   * Null (1) when the merchant has removed the address or turned e-mails off, (2) when the address
   * is unsubscribed, (3) when it is not confirmed, or already confirmed in the case of a
   * confirmation.
   */
  email: string | null;
  /** Token in the link of a confirmation e-mail; null for other e-mails. */
  confirmToken: string | null;
  unsubscribeToken: string;
}

/** Seconds after which a claim expires and another process may send the e-mail. */
const LEASE_SECONDS = 600;
/** Minutes for which an endpoint must fail before its merchant gets an e-mail. */
const FAILING_MINUTES = 10;
/** Minimum number of hours between two e-mails about failures of the same endpoint. */
const QUIET_HOURS = 6;
/** Days after which finished e-mails are deleted. */
const KEPT_DAYS = 30;
/** Maximum number of payments listed in a digest. */
const MAX_NAMED = 10;

/**
 * Queues one e-mail for each endpoint that fails or was disabled because it failed, and for each
 * blocked plan. While a problem lasts, no second e-mail about the problem is queued. Returns the
 * number of queued e-mails.
 */
export async function queueMails(sql: Queryable): Promise<number> {
  await sql`
    update mails m set open = false where open and kind <> 'confirm_address' and not case kind
      when 'endpoint_failing' then exists (
        select from endpoint_health h join webhook_endpoints e on e.id = h.endpoint_id
        where h.endpoint_id = m.about and h.failing_since is not null and e.deleted_at is null
          and e.disabled_at is null)
      when 'endpoint_disabled' then exists (
        select from webhook_endpoints where id = m.about and deleted_at is null
          and disabled_at is not null)
      else exists (
        select from plans where id = m.about and collection_blocked_reason is not null)
    end`;
  const { count } = await sql`
    with found (kind, about, app_id, data) as (
      select 'endpoint_failing', e.id, e.app_id, jsonb_build_object('url', e.url,
        'since', h.failing_since, 'lastError', h.last_error)
      from endpoint_health h join webhook_endpoints e on e.id = h.endpoint_id
      where h.failing_since < now() - make_interval(mins => ${FAILING_MINUTES})
        and e.deleted_at is null and e.disabled_at is null
        and not exists (select from mails r where r.about = e.id and r.kind = 'endpoint_failing'
          and r.created_at > now() - make_interval(hours => ${QUIET_HOURS}))
      union all
      select 'endpoint_disabled', e.id, e.app_id, jsonb_build_object('url', e.url,
        'since', e.disabled_at)
      from webhook_endpoints e
      where e.disabled_reason = 'failing' and e.deleted_at is null
      union all
      select 'plan_blocked', p.id, p.app_id, jsonb_build_object('planName', p.name,
        'reason', p.collection_blocked_reason)
      from plans p where p.collection_blocked_reason is not null
    )
    insert into mails (merchant_id, kind, about, data, open)
    select m.id, found.kind, found.about, found.data || jsonb_build_object('appName', a.name), true
    from found join apps a on a.id = found.app_id join merchants m on m.id = a.merchant_id
    where m.email_confirmed_at is not null and m.mails and not exists (
      select from mail_addresses d
      where d.mailbox = mailbox_of(m.email) and d.unsubscribed_at is not null)
    on conflict do nothing`;
  return count;
}

/**
 * Queues a digest of yesterday's failed payments (UTC) for each merchant that had any, at most one
 * digest per day. Returns yesterday's date.
 */
export async function queueDigests(sql: Queryable): Promise<string> {
  const [row] = await sql<{ day: string }[]>`
    select to_char(queue_digests(${MAX_NAMED}), 'YYYY-MM-DD') as day`;
  return row?.day ?? '';
}

/** The hour of the day (UTC) by the database's clock, and yesterday's date. */
export async function readDay(sql: Queryable): Promise<{ hour: number; yesterday: string }> {
  const [row] = await sql<{ hour: number; yesterday: string }[]>`
    select extract(hour from now() at time zone 'UTC')::int as hour,
      to_char((now() at time zone 'UTC') - interval '1 day', 'YYYY-MM-DD') as yesterday`;
  if (row === undefined) throw new Error('the clock was not read');
  return row;
}

/**
 * Claims due e-mails. A claim expires after ten minutes. Merchants take turns, each with the e-mail
 * that has been due for the longest time. Any merchant can cause confirmations to any address. They
 * therefore take turns with all other e-mails, and fill the rest of the batch.
 */
export function takeMails(sql: Queryable, limit: number): Promise<MailRow[]> {
  return sql<MailRow[]>`
    with turns as (
      select id, due_at, kind = 'confirm_address' as confirms,
        row_number() over (partition by kind = 'confirm_address', merchant_id
          order by due_at, id) as turn
      from mails where due_at <= now()
    ), places as (
      select id, due_at,
        row_number() over (partition by confirms order by turn, due_at, id) as place
      from turns
    ), due as (
      select id from mails where id = any(array(
          select id from places order by place, due_at, id limit ${limit}))
        and due_at <= now() for update skip locked
    ), taken as (
      update mails set attempts = attempts + 1,
        due_at = now() + make_interval(secs => ${LEASE_SECONDS})
      from due where mails.id = due.id
      returning mails.id, mails.kind, mails.day, mails.data, mails.attempts, mails.merchant_id,
        mails.mailbox, mails.token, mails.created_at
    )
    select c.id, c.kind, to_char(c.day, 'YYYY-MM-DD') as day, c.data, c.attempts,
      c.token as confirm_token, a.token as unsubscribe_token,
      case when m.mails and a.token is not null and a.unsubscribed_at is null
        and case when c.kind = 'confirm_address' then ${isAwaited(sql)}
          else m.email_confirmed_at is not null end
        then m.email end as email
    from taken c join merchants m on m.id = c.merchant_id
      left join mail_addresses a on a.mailbox = mailbox_of(m.email)
    order by c.id`;
}

/** Returns for how many seconds the oldest e-mail has been due; 0 if none is. */
export async function readOldestMail(sql: Queryable): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ${secondsSince(sql, sql`min(due_at)`)} as seconds from mails where due_at <= now()`;
  return row?.seconds ?? 0;
}

type Claim = Pick<MailRow, 'id' | 'attempts'>;

/**
 * Records that an e-mail was sent, has failed finally (`failed`) or is no longer wanted
 * (`dropped`).
 */
export async function finishMail(
  sql: Queryable,
  { id, attempts }: Claim,
  state: 'sent' | 'failed' | 'dropped',
  error: string | null = null,
): Promise<void> {
  await sql`
    update mails set state = ${state}, due_at = null, error = ${error}
    where id = ${id} and attempts = ${attempts} and state = 'queued'`;
}

/** Schedules the next attempt of an e-mail in `delayMs`. */
export async function retryMail(
  sql: Queryable,
  { id, attempts }: Claim,
  { delayMs, error }: { delayMs: number; error: string },
): Promise<void> {
  await sql`
    update mails set due_at = now() + make_interval(secs => ${delayMs / 1000}), error = ${error}
    where id = ${id} and attempts = ${attempts} and state = 'queued'`;
}

/**
 * Deletes e-mails that are older than 30 days, are no longer queued, and report a problem that is
 * over.
 */
export async function deleteOldMails(sql: Queryable): Promise<void> {
  await sql`
    delete from mails where created_at < now() - make_interval(days => ${KEPT_DAYS}) and not open
      and state <> 'queued'`;
}
