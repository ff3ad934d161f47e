// E-mail addresses of merchants. The first e-mail to an address is a confirmation; other e-mails
// are sent only after the link in it was opened. The unsubscribe link ends the e-mails of all
// merchants to this address. A mailbox is stored as a hash (mailbox_of() in sql/).
import type { Queryable, Sql } from '../postgres/connect.ts';

/** Maximum number of confirmations to one mailbox in 24 hours, over all merchants. */
const MAX_CONFIRMATIONS = 3;

/**
 * Queues a confirmation for each merchant with an unconfirmed address and no open confirmation, at
 * most three a day per mailbox. Returns the number of queued confirmations.
 */
export function queueConfirmations(sql: Sql): Promise<number> {
  return sql.begin(async (tx) => {
    // Without the lock, two dispatchers could each count the same confirmations of the day.
    await tx`select pg_advisory_xact_lock(hashtextextended('confirmations', 2))`;
    await tx`
      update mails c set open = false
      where c.kind = 'confirm_address' and c.open and not exists (
        select from merchants m join mail_addresses a on a.mailbox = c.mailbox
        where m.id = c.about and ${isAwaited(tx)} and a.unsubscribed_at is null)`;
    const { count } = await tx`
      with wanted as (
        select m.id, mailbox_of(m.email) as mailbox, row_number() over (
          partition by mailbox_of(m.email) order by m.created_at, m.id) as place
        from merchants m where ${needsConfirmation(tx)}
      ), allowed as (
        select w.id, w.mailbox from wanted w
        where w.place + (select count(*) from mails c where c.mailbox = w.mailbox
          and c.created_at > now() - interval '24 hours') <= ${MAX_CONFIRMATIONS}
      ), known as (
        insert into mail_addresses (mailbox) select distinct mailbox from allowed
        on conflict do nothing
      )
      insert into mails (merchant_id, kind, about, data, open, mailbox, token, created_at)
      select id, 'confirm_address', id, '{}', true, mailbox, gen_random_uuid(), clock_timestamp()
      from allowed`;
    return count;
  });
}

/** SQL condition: no confirmation was queued yet for the address of merchant `m`. */
const needsConfirmation = (sql: Queryable) => sql`
  m.email is not null and m.mails and m.email_confirmed_at is null
    and not exists (select from mails c
      where c.kind = 'confirm_address' and c.about = m.id and c.open)
    and not exists (select from suspensions s where s.role = 'merchant' and s.wallet = m.wallet)
    and not exists (select from mail_addresses a
      where a.mailbox = mailbox_of(m.email) and a.unsubscribed_at is not null)`;

/** SQL condition: some merchant's address needs a confirmation. */
export const areConfirmationsNeeded = (sql: Queryable) => sql`
  exists (select from merchants m where ${needsConfirmation(sql)})`;

/** SQL condition: the confirmation `c` was made for the current address of merchant `m`. */
const isCurrent = (sql: Queryable) => sql`
  c.mailbox = mailbox_of(m.email) and c.created_at >= coalesce(m.email_given_at, '-infinity')`;

/** SQL condition: merchant `m` waits for the confirmation `c`. */
export const isAwaited = (sql: Queryable) => sql`
  (m.mails and m.email_confirmed_at is null and ${isCurrent(sql)})`;

/** Whether the token belongs to a confirmation that is still valid. */
export async function isConfirmation(sql: Queryable, token: string): Promise<boolean> {
  const rows = await sql`
    select from mails c join merchants m on m.id = c.merchant_id
    where c.token = ${token} and ${isCurrent(sql)}`;
  return rows.length === 1;
}

/**
 * Confirms the address to which the confirmation with this token was sent. Returns false if the
 * token is unknown or no longer valid.
 */
export async function confirmAddress(sql: Queryable, token: string): Promise<boolean> {
  const { count } = await sql`
    update merchants m set email_confirmed_at = coalesce(m.email_confirmed_at, now())
    from mails c where c.token = ${token} and c.merchant_id = m.id and ${isCurrent(sql)}`;
  return count === 1;
}

/** Returns whether the mailbox with this token gets e-mails; undefined for an unknown token. */
export async function isSubscribed(sql: Queryable, token: string): Promise<boolean | undefined> {
  const [row] = await sql<{ isSubscribed: boolean }[]>`
    select unsubscribed_at is null as is_subscribed from mail_addresses where token = ${token}`;
  return row?.isSubscribed;
}

/**
 * Ends the e-mails of all merchants to the mailbox with this token, or allows them again. Returns
 * false for an unknown token.
 */
export async function setSubscribed(
  sql: Queryable,
  token: string,
  isWanted: boolean,
): Promise<boolean> {
  const { count } = await sql`
    update mail_addresses set unsubscribed_at = case when not ${isWanted} then
      coalesce(unsubscribed_at, now()) end
    where token = ${token}`;
  return count === 1;
}
