-- Webhook endpoints, the deliveries of events to them, replays; e-mails to merchants.

create table webhook_endpoints (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  url text not null,
  extra_events text[] not null default '{}' check (extra_events <@ array['renewal_upcoming',
    'plan_blocked', 'subscription_paused', 'subscription_unpaused', 'refund_recorded',
    'invoice_voided', 'invoice_uncollectible', 'credit_changed']),
  headers bytea,
  header_names text[] not null default '{}' check (cardinality(header_names) <= 10),
  max_per_second int check (max_per_second between 1 and 1000),
  settings_at timestamptz,
  secret bytea not null,
  previous_secret bytea,
  rotated_at timestamptz,
  previous_since timestamptz,
  previous_until timestamptz,
  disabled_at timestamptz,
  disabled_reason text check (disabled_reason in ('merchant', 'failing')),
  enabled_at timestamptz,
  created_at timestamptz not null default now(),
  deleted_at timestamptz,
  constraint headers_have_names check ((headers is null) = (cardinality(header_names) = 0)),
  constraint rotation_is_whole check ((rotated_at is null) = (previous_secret is null)
    and (rotated_at is null) = (previous_until is null)),
  constraint disabled_has_reason check ((disabled_at is null) = (disabled_reason is null))
);
comment on table webhook_endpoints is 'where the events of an app are sent; deleted ones are kept for their deliveries';
comment on column webhook_endpoints.extra_events is 'opt-in event types, in addition to those that every endpoint gets (takes_event)';
comment on column webhook_endpoints.headers is 'the merchant''s own headers as JSON, encrypted like the secret';
comment on column webhook_endpoints.max_per_second is 'requests per second of all dispatchers together; null: no limit';
comment on column webhook_endpoints.settings_at is 'last change of headers or max_per_second, by which dispatchers notice it';
comment on column webhook_endpoints.secret is 'AES-256-GCM: key number, nonce, ciphertext, tag (domain/accounts/secrets.ts)';
comment on column webhook_endpoints.previous_secret is 'the secret before rotated_at; also used for signing until previous_until';
comment on column webhook_endpoints.previous_since is 'the rotation before rotated_at; earlier attempts were signed with a secret that is no longer stored';
comment on column webhook_endpoints.disabled_at is 'no event is queued for the endpoint and nothing is sent to it since this time';
comment on column webhook_endpoints.disabled_reason is 'merchant: over the API; failing: by a dispatcher, after ENDPOINT_DISABLE_DAYS of failures';
comment on column webhook_endpoints.enabled_at is 'end of the last time that it was disabled: earlier failures do not disable it again';
create unique index one_endpoint_per_app on webhook_endpoints (app_id) where deleted_at is null;
create index deleted_endpoints_by_app on webhook_endpoints (app_id, id)
  where deleted_at is not null;

-- Whether an endpoint with these extra_events gets events of a type: opt-in types must be among
-- them, and endpoint_disabled is only listed.
create function takes_event(extra_events text[], type text) returns boolean
language sql immutable parallel safe
as $$
  select type <> 'endpoint_disabled' and (type = any(extra_events)
    or type not in ('renewal_upcoming', 'plan_blocked', 'subscription_paused',
      'subscription_unpaused', 'refund_recorded', 'invoice_voided', 'invoice_uncollectible',
      'credit_changed'))
$$;

-- Written by dispatchers every few seconds, apart from the outcomes, so that the outcomes stay
-- cheap.
create table endpoint_health (
  endpoint_id uuid primary key references webhook_endpoints,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  failing_since timestamptz,
  last_error text,
  constraint failure_is_whole check ((last_failure_at is null) = (last_error is null))
) with (fillfactor = 50);
comment on table endpoint_health is 'the last requests of each endpoint';
comment on column endpoint_health.failing_since is 'the first failure after the last success; null unless the last request failed';
comment on column endpoint_health.last_error is 'HTTP status or error code (webhooks/errors.ts) of the last failure';
create index endpoints_failing on endpoint_health (failing_since) where failing_since is not null;

create table endpoint_hours (
  endpoint_id uuid not null,
  hour timestamptz not null,
  succeeded int not null default 0,
  failed int not null default 0,
  primary key (endpoint_id, hour)
) with (fillfactor = 50);
comment on table endpoint_hours is 'webhook requests of each endpoint by the hour, kept for two days';

-- Dispatchers claim rows with FOR UPDATE SKIP LOCKED. The columns of the claim are in no index and
-- pages are half full, so that a claim is a HOT update. The table stays small, so autovacuum uses a
-- number of dead rows as threshold, not a share of the table.
create table delivery_queue (
  id uuid primary key default uuid_v7(),
  endpoint_id uuid not null references webhook_endpoints,
  event_id uuid not null,
  event_type text not null,
  attempts int not null default 0 check (attempts between 0 and 5),
  due_at timestamptz not null default now(),
  replay_of uuid,
  replayed boolean not null default false,
  claim_id uuid,
  claimed_until timestamptz,
  constraint claim_is_whole check ((claim_id is null) = (claimed_until is null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
comment on table delivery_queue is 'unfinished deliveries: an event that is sent to an endpoint until it is answered with success, at most six times';
comment on column delivery_queue.event_id is 'no foreign key, because events are dropped by the month; months with queued events are kept';
comment on column delivery_queue.attempts is 'number of failed requests; each is in earlier_attempts';
comment on column delivery_queue.replayed is 'queued by a replay, not by the statement that wrote the event';
comment on column delivery_queue.claimed_until is 'database time until which only the dispatcher with this claim_id may send it';
create index delivery_queue_by_due on delivery_queue (endpoint_id, due_at, id);
create index delivery_queue_by_endpoint on delivery_queue (endpoint_id, id);
create index delivery_queue_replayed on delivery_queue (event_id) where replayed;

-- Partitioned by month of the id. No foreign keys: rows come from delivery_queue, which has them,
-- and so dropping a month does not lock the referenced tables.
create table deliveries (
  id uuid primary key,
  endpoint_id uuid not null,
  event_id uuid not null,
  event_type text not null,
  status text not null check (status in ('delivered', 'failed', 'cancelled')),
  attempts int not null check (attempts between 0 and 6),
  replay_of uuid,
  replayed boolean not null,
  finished_at timestamptz not null,
  last_started_at timestamptz,
  last_duration_ms int,
  last_http_status int,
  last_error text,
  last_response bytea,
  last_address text,
  constraint last_attempt_is_whole check (case when last_started_at is null
    then status = 'cancelled' and last_duration_ms is null and last_http_status is null
      and last_error is null and last_response is null and last_address is null
    else attempts > 0 and last_duration_ms >= 0
      and (last_http_status is null) = (last_error is not null) end)
) partition by range (id);
comment on table deliveries is 'finished deliveries: inserted once, by the statement that deletes them from the queue, and never updated';
comment on column deliveries.last_started_at is 'this and the next five columns: the last attempt, null if the delivery was cancelled before its next attempt; earlier ones are in earlier_attempts';
comment on column deliveries.last_response is 'the first 4 KiB of the answer''s body, as received';
create index deliveries_by_endpoint on deliveries (endpoint_id, id);
-- Serve lists of failed or cancelled deliveries, newest first, of one endpoint or of all. Delivered
-- rows are not in these indexes.
create index deliveries_undelivered on deliveries (id) where status in ('failed', 'cancelled');
create index deliveries_undelivered_by_endpoint on deliveries (endpoint_id, id)
  where status in ('failed', 'cancelled');
create index deliveries_replayed on deliveries (event_id) where replayed;
create table deliveries_default partition of deliveries default;
comment on table deliveries_default is 'as events_default';

create table earlier_attempts (
  delivery_id uuid not null,
  number int not null check (number > 0),
  started_at timestamptz not null,
  duration_ms int not null check (duration_ms >= 0),
  http_status int,
  error text,
  response bytea,
  address text,
  primary key (delivery_id, number),
  constraint answered_or_errored check ((http_status is null) = (error is not null))
) partition by range (delivery_id);
comment on table earlier_attempts is 'requests after which a retry was scheduled: written by the statement that returns the delivery to the queue, dropped with the month of the delivery';
comment on column earlier_attempts.response is 'the first 4 KiB of the answer''s body, as received';
create table earlier_attempts_default partition of earlier_attempts default;
comment on table earlier_attempts_default is 'as events_default';

create view all_deliveries as
  select id, endpoint_id, event_id, event_type, 'pending' as status, attempts,
    due_at as next_attempt_at, replay_of, replayed, made_at(id) as created_at,
    null::timestamptz as finished_at,
    (select http_status from earlier_attempts where delivery_id = delivery_queue.id
      order by number desc limit 1) as last_http_status,
    (select error from earlier_attempts where delivery_id = delivery_queue.id
      order by number desc limit 1) as last_error
  from delivery_queue
  union all
  select id, endpoint_id, event_id, event_type, status, attempts, null, replay_of, replayed,
    made_at(id), finished_at, last_http_status, last_error
  from deliveries;
comment on view all_deliveries is 'the queue and the log together, for reads';

create view delivery_attempts as
  select delivery_id, number, started_at, duration_ms, http_status, error, response, address
  from earlier_attempts
  union all
  select id, attempts, last_started_at, last_duration_ms, last_http_status, last_error,
    last_response, last_address
  from deliveries where last_started_at is not null;
comment on view delivery_attempts is 'every request; number 1 is the first of its delivery';

-- Creates missing partitions of this month and the next `ahead` months, and returns their names.
-- Runs with the rights of the tables' owner, so that a daemon only needs the right to execute it.
create function make_months(ahead int default 3) returns setof text
language plpgsql security definer set search_path = public, pg_temp
as $$
declare
  parents constant text[] := array['events', 'deliveries', 'earlier_attempts'];
  parent text;
  part text;
  month timestamp;
begin
  perform pg_advisory_xact_lock(hashtext('billing partitions'));
  if not exists (select from generate_series(0, ahead) n, unnest(parents) p
    where to_regclass(p || to_char(date_trunc('month', now() at time zone 'UTC')
      + n * interval '1 month', '_YYYY_MM')) is null) then
    return;
  end if;
  -- Takes the locks of the statements below (events, then the referenced tables) in the order of
  -- the writing transactions, which lock rows of subscriptions (exclusive mode waits for these)
  -- before they insert events. Another order could deadlock.
  lock table apps in share row exclusive mode;
  lock table subscriptions in exclusive mode;
  lock table only events, only deliveries, only earlier_attempts in access exclusive mode;
  for month in select date_trunc('month', now() at time zone 'UTC') + n * interval '1 month'
    from generate_series(0, ahead) n
  loop
    foreach parent in array parents loop
      part := parent || to_char(month, '_YYYY_MM');
      continue when to_regclass(part) is not null;
      execute format('create table %I partition of %I for values from (%L) to (%L)', part, parent,
        first_id_at(month at time zone 'UTC'),
        first_id_at((month + interval '1 month') at time zone 'UTC'));
      if parent = 'events' then
        execute format('alter table %I add constraint %I unique (subscription_id, sequence)', part,
          'sequence_is_unique_' || to_char(month, 'YYYY_MM'));
      end if;
      return next part;
    end loop;
  end loop;
end
$$;
revoke execute on function make_months(int) from public;

-- Whether deliveries of events with ids in [first_id, end_id) still exist. The first delivery of an
-- event is in the event's month; later ones are replays.
create function month_is_used(suffix text, first_id uuid, end_id uuid) returns boolean
language sql stable
as $$
  select to_regclass('deliveries_' || suffix) is not null
    or exists (select from delivery_queue where event_id < end_id)
    or exists (select from deliveries
      where replayed and event_id >= first_id and event_id < end_id)
$$;

-- Drops the oldest month of deliveries (with their attempts) or of events that ended more than
-- `days` ago, and returns it as YYYY_MM; null when there is none. A month of events is dropped
-- after all its deliveries. Call it with a lock_timeout, because it waits for every statement on
-- these tables.
create function drop_month(parent text, days int) returns text
language plpgsql security definer set search_path = public, pg_temp
as $$
declare
  suffix text;
  ended timestamptz;
  first_id uuid;
  end_id uuid;
begin
  if parent not in ('deliveries', 'events') then
    raise exception 'months of % are not dropped', parent;
  end if;
  perform pg_advisory_xact_lock(hashtext('billing partitions'));
  select right(c.relname, 7) into suffix from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = parent::regclass and c.relname ~ '_\d{4}_\d\d$' order by c.relname limit 1;
  ended := (to_date(suffix, 'YYYY_MM')::timestamp + interval '1 month') at time zone 'UTC';
  if suffix is null or ended > now() - days * interval '1 day' then
    return null;
  end if;
  first_id := first_id_at(to_date(suffix, 'YYYY_MM')::timestamp at time zone 'UTC');
  end_id := first_id_at(ended);
  if parent = 'deliveries' then
    if exists (select from delivery_queue where id < end_id) then
      return null;
    end if;
    execute format('drop table %I, %I', 'deliveries_' || suffix, 'earlier_attempts_' || suffix);
  else
    if month_is_used(suffix, first_id, end_id) then
      return null;
    end if;
    -- Checked again under the lock, because a replay that read an event before the lock has now
    -- committed its delivery.
    lock table only events in access exclusive mode;
    execute format('lock table %I in access exclusive mode', 'events_' || suffix);
    if month_is_used(suffix, first_id, end_id) then
      return null;
    end if;
    execute format('drop table %I', 'events_' || suffix);
  end if;
  return suffix;
end
$$;
revoke execute on function drop_month(text, int) from public;

create table replays (
  id uuid primary key default uuid_v7(),
  app_id uuid references apps,
  selection text not null,
  until timestamptz not null,
  stage text not null default 'deliveries' check (stage in ('deliveries', 'events')),
  cursor uuid,
  total int not null check (total >= 0),
  queued int not null default 0 check (queued >= 0),
  finished_before int not null default 0 check (finished_before >= 0),
  worked_at timestamptz,
  created_at timestamptz not null default now(),
  finished_at timestamptz
);
comment on table replays is 'replay runs; the transaction that queues also advances the cursor, so that an interrupted run can be resumed';
comment on column replays.app_id is 'the app of a run requested over the API, which serve executes; null for a run of the command';
comment on column replays.selection is 'the filters or ids as canonical JSON, by which the same command finds its interrupted run';
comment on column replays.until is 'upper bound of the creation time, which excludes later rows and those of the run itself';
comment on column replays.finished_before is 'finished runs of the same selection when this one was planned: with more of them, another run has queued what it counted';
comment on column replays.worked_at is 'when a batch of the run was last queued; the run that waited longest is next';
create unique index one_open_replay_per_selection on replays (md5(selection))
  where finished_at is null;
create index replays_requested on replays (id) where finished_at is null and app_id is not null;

create table mails (
  id uuid primary key default uuid_v7(),
  merchant_id uuid not null references merchants,
  kind text not null check (kind in ('endpoint_failing', 'endpoint_disabled', 'plan_blocked',
    'payments_failed', 'confirm_address')),
  about uuid not null,
  day date,
  data jsonb not null,
  open boolean not null,
  mailbox bytea,
  token uuid,
  state text not null default 'queued' check (state in ('queued', 'sent', 'failed', 'dropped')),
  attempts int not null default 0 check (attempts >= 0),
  due_at timestamptz default now(),
  error text,
  created_at timestamptz not null default now(),
  constraint digest_has_day check ((kind = 'payments_failed') = (day is not null)),
  constraint confirmation_has_address check ((kind = 'confirm_address') = (mailbox is not null)
    and (mailbox is null) = (token is null)),
  constraint queued_is_due check ((state = 'queued') = (due_at is not null))
) with (fillfactor = 80);
comment on table mails is 'e-mails to merchants, which dispatch sends where the operator sets SMTP_URL; kept for 30 days after they were sent';
comment on column mails.about is 'the endpoint, the plan, or the merchant of a digest';
comment on column mails.open is 'what it tells still holds: it is not told again';
comment on column mails.mailbox is 'of a confirmation: the mailbox that it is sent to';
comment on column mails.token is 'of a confirmation: in its link';
comment on column mails.due_at is 'next try; while one is under way, the time from which another process may try';
create unique index one_mail_while_open on mails (kind, about) where open;
create unique index one_digest_per_day on mails (about, day) where day is not null;
create unique index mails_by_token on mails (token) where token is not null;
create index mails_to_mailbox on mails (mailbox, created_at) where mailbox is not null;
create index mails_about on mails (about, created_at);
create index mails_due on mails (due_at) where due_at is not null;
create index mails_by_age on mails (created_at);

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

-- Queues a digest of the failed payments of yesterday (UTC) for each merchant that had any, once.
-- Runs with the rights of the tables' owner, so that the dispatcher reads no payment and no
-- subscription.
create function queue_digests(named int) returns date
language sql volatile security definer set search_path = public, pg_temp
as $$
  with yesterday as (
    select date_trunc('day', now(), 'UTC') - interval '1 day' as start
  ), failed as (
    select m.id as merchant_id, a.name as app_name, p.id, p.subscription_id, p.subscriber_wallet,
      p.amount_gross, p.failure_reason, p.occurred_at
    from yesterday, merchants m join apps a on a.merchant_id = m.id
      join payments p on p.app_id = a.id
    where m.email_confirmed_at is not null and m.mails and p.status = 'failed'
      and p.occurred_at >= start and p.occurred_at < start + interval '1 day'
      and not exists (select from mail_addresses d
        where d.mailbox = mailbox_of(m.email) and d.unsubscribed_at is not null)
  ), queued as (
    insert into mails (merchant_id, kind, about, day, data, open)
    select merchant_id, 'payments_failed', merchant_id,
      (select (start at time zone 'UTC')::date from yesterday),
      jsonb_build_object('appName', string_agg(distinct app_name, ', '), 'count', count(*),
        'amount', sum(amount_gross)::text,
        'payments', to_jsonb((array_agg(
          jsonb_build_object('customer', coalesce(s.external_id, failed.subscriber_wallet),
            'amount', amount_gross::text, 'reason', failure_reason)
          order by occurred_at desc, failed.id))[1:named])), false
    from failed join subscriptions s on s.id = failed.subscription_id
    group by merchant_id
    on conflict do nothing
  )
  select (start at time zone 'UTC')::date from yesterday
$$;
revoke execute on function queue_digests(int) from public;
