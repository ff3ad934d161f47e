-- E-mail to merchants about failures: job rows, sent by dispatch where the operator sets SMTP_URL.
-- min_release: 0.1.0

alter table merchants
  add column mails boolean not null default true,
  add column unsubscribe_token uuid not null default gen_random_uuid() unique;
comment on column merchants.mails is 'whether e-mails about failures are sent to the merchant';
comment on column merchants.unsubscribe_token is 'in the link of each e-mail that ends them';

create table mails (
  id uuid primary key default uuid_v7(),
  merchant_id uuid not null references merchants,
  kind text not null check (kind in ('endpoint_failing', 'endpoint_disabled', 'plan_blocked', 'payments_failed')),
  about uuid not null,
  day date,
  data jsonb not null,
  open boolean not null,
  state text not null default 'queued' check (state in ('queued', 'sent', 'failed', 'dropped')),
  attempts integer not null default 0 check (attempts >= 0),
  due_at timestamptz default now(),
  error text,
  created_at timestamptz not null default now(),
  constraint digest_has_day check ((kind = 'payments_failed') = (day is not null)),
  constraint queued_is_due check ((state = 'queued') = (due_at is not null))
) with (fillfactor = 80);
comment on table mails is 'e-mails to merchants; kept for 30 days after they were sent';
comment on column mails.about is 'the endpoint, the plan, or the merchant of a digest';
comment on column mails.open is 'what it tells still holds: it is not told again';
comment on column mails.due_at is 'next try; while one is under way, the time from which another process may try';
create unique index one_mail_while_open on mails (kind, about) where open;
create unique index one_digest_per_day on mails (about, day) where day is not null;
create index mails_due on mails (due_at) where due_at is not null;
create index mails_by_age on mails (created_at);
create index mails_about on mails (about, created_at);

-- Queues a digest of the failed payments of yesterday (UTC) for each merchant that had any, once. Runs with the rights of the tables' owner,
-- so that the dispatcher reads no payment and no subscription.
create function queue_digests(named int) returns date
language sql volatile security definer set search_path = public, pg_temp
as $$
  with yesterday as (
    select date_trunc('day', now(), 'UTC') - interval '1 day' as start
  ), failed as (
    select m.id as merchant_id, a.name as app_name, p.*
    from yesterday, merchants m join apps a on a.merchant_id = m.id join payments p on p.app_id = a.id
    where m.email is not null and m.mails and p.status = 'failed' and p.occurred_at >= start and p.occurred_at < start + interval '1 day'
  ), queued as (
    insert into mails (merchant_id, kind, about, day, data, open)
    select merchant_id, 'payments_failed', merchant_id, (select (start at time zone 'UTC')::date from yesterday),
      jsonb_build_object('appName', string_agg(distinct app_name, ', '), 'count', count(*), 'amount', sum(amount_gross)::text,
        'payments', to_jsonb((array_agg(jsonb_build_object('customer', coalesce(s.external_id, failed.subscriber_wallet),
          'amount', amount_gross::text, 'reason', failure_reason) order by occurred_at desc, failed.id))[1:named])), false
    from failed join subscriptions s on s.id = failed.subscription_id
    group by merchant_id
    on conflict do nothing
  )
  select (start at time zone 'UTC')::date from yesterday
$$;
revoke execute on function queue_digests(int) from public;
