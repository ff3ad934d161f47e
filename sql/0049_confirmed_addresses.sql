-- A merchant's e-mail address counts after its link was opened, and its owner unsubscribes it for all merchants.
-- min_release: 0.1.0

alter table merchants
  add column email_confirmed_at timestamptz,
  add column email_given_at timestamptz;
comment on column merchants.email_confirmed_at is 'the link in the confirmation was opened; other e-mails are sent only then';
comment on column merchants.email_given_at is 'links of earlier confirmations are void; null: before addresses were confirmed';

create function email_changed() returns trigger language plpgsql as $$
begin
  new.email_confirmed_at := null;
  new.email_given_at := now();
  return new;
end $$;
create trigger changed_email before update of email on merchants
  for each row when (new.email is distinct from old.email) execute function email_changed();

-- The same for all spellings of one mailbox: letters of either case, and tags ("+shop").
create function mailbox_of(email text) returns bytea language sql immutable strict parallel safe
as $$ select sha256(convert_to(lower(regexp_replace(email, '\+[^@]*@', '@')), 'UTF8')) $$;

create table mail_addresses (
  mailbox bytea primary key check (length(mailbox) = 32),
  token uuid not null default gen_random_uuid() unique,
  unsubscribed_at timestamptz,
  created_at timestamptz not null default now()
);
comment on table mail_addresses is 'mailboxes that an e-mail was sent to, as hashes';
comment on column mail_addresses.token is 'in the link of each e-mail that ends them';
comment on column mail_addresses.unsubscribed_at is 'nothing is sent to it, whatever merchant names it';

-- Links of e-mails sent before stay valid.
insert into mail_addresses (mailbox, token)
select distinct on (mailbox_of(email)) mailbox_of(email), unsubscribe_token
from merchants where email is not null order by mailbox_of(email), created_at;

alter table mails
  add column mailbox bytea,
  add column token uuid,
  drop constraint mails_kind_check,
  add constraint mails_kind_check check (kind in
    ('endpoint_failing', 'endpoint_disabled', 'plan_blocked', 'payments_failed', 'confirm_address')),
  add constraint confirmation_has_address check
    ((kind = 'confirm_address') = (mailbox is not null) and (mailbox is null) = (token is null));
comment on column mails.mailbox is 'of a confirmation: the mailbox that it is sent to';
comment on column mails.token is 'of a confirmation: in its link';
create unique index mails_by_token on mails (token) where token is not null;
create index mails_to_mailbox on mails (mailbox, created_at) where mailbox is not null;

create or replace function queue_digests(named int) returns date
language sql volatile security definer set search_path = public, pg_temp
as $$
  with yesterday as (
    select date_trunc('day', now(), 'UTC') - interval '1 day' as start
  ), failed as (
    select m.id as merchant_id, a.name as app_name, p.id, p.subscription_id, p.subscriber_wallet, p.amount_gross, p.failure_reason,
      p.occurred_at
    from yesterday, merchants m join apps a on a.merchant_id = m.id join payments p on p.app_id = a.id
    where m.email_confirmed_at is not null and m.mails and p.status = 'failed' and p.occurred_at >= start
      and p.occurred_at < start + interval '1 day'
      and not exists (select from mail_addresses d where d.mailbox = mailbox_of(m.email) and d.unsubscribed_at is not null)
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
