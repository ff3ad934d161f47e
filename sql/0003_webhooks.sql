-- The outbox (events), the webhook endpoints, the deliveries to them and their attempts.

-- The creation time of a version 7 id (RFC 9562, with the microseconds that uuid_v7 puts behind the milliseconds).
create function made_at(id uuid) returns timestamptz
language sql immutable strict parallel safe
as $$
  select to_timestamp((
      ('x0000' || substr(id::text, 1, 8) || substr(id::text, 10, 4))::bit(64)::int8 * 1000
        + ((('x0' || substr(id::text, 16, 3))::bit(16)::int * 1000) >> 12)
    ) / 1000000::float8)
$$;
-- The lowest version 7 id of a time: rows created before that time have lower ids.
create function first_id_at(moment timestamptz) returns uuid
language sql stable strict parallel safe
as $$
  select (lpad(to_hex(floor(extract(epoch from moment) * 1000)::int8), 12, '0') || '70000000000000000000')::uuid
$$;
-- The same to the microsecond, like the ids of uuid_v7().
create function id_at(moment timestamptz) returns uuid
language sql stable strict parallel safe
as $$
  select (overlay(lpad(to_hex(floor(date_part('epoch', moment) * 4096000)::int8), 15, '0') placing '7' from 13 for 0) || repeat('0', 16))::uuid
$$;

-- Partitioned by month of the id. make_months() creates the partitions, drop_months() drops those past the retention time.
create table events (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  subscription_id uuid references subscriptions,
  sequence int8 check (sequence > 0),
  type text not null check (type in ('subscription_created', 'payment_success', 'payment_failed', 'cancel_requested', 'cancel_finalized',
    'cancel_forced', 'delegation_revoked', 'subscription_resumed',
    'renewal_upcoming', 'plan_blocked', 'subscription_paused', 'subscription_unpaused', 'refund_recorded')),
  body text not null,
  queued boolean not null default false,
  created_at timestamptz not null,
  constraint of_subscription_or_plan check ((type = 'plan_blocked') = (subscription_id is null) and (subscription_id is null) = (sequence is null))
) partition by range (id);
comment on column events.body is 'the exact text that every attempt and replay sends';
comment on column events.queued is 'whether the statement that wrote the event queued a delivery, because the app had an endpoint for its type';
comment on column events.created_at is 'the time in the id, in milliseconds';
create index events_by_app on events (app_id, id);
create table events_default partition of events (constraint sequence_is_unique_default unique (subscription_id, sequence)) default;
comment on table events_default is 'empty as long as make_months() runs in time; monitored by a gauge and an alert';

-- Sequences have no gaps per subscription: the counter increases by one, an event gets the counter value of its own transaction, and an increased
-- counter without its event does not commit. Unique indexes cannot check this, because they only cover one partition.
create function check_event_sequence() returns trigger language plpgsql as $$
begin
  if not exists (select from subscriptions
    where id = new.subscription_id and event_sequence = new.sequence and xmin = pg_current_xact_id()::xid) then
    raise exception 'event sequence % of subscription % is not its counter', new.sequence, new.subscription_id using errcode = 'check_violation';
  end if;
  return new;
end
$$;
create function check_event_counter() returns trigger language plpgsql as $$
begin
  -- The event was written in this transaction. The bound on its id excludes older partitions; a day allows for a clock that is set back.
  if new.event_sequence <> old.event_sequence + 1 or not exists (select from events
    where subscription_id = new.id and sequence = new.event_sequence and id >= first_id_at(now() - interval '1 day')) then
    raise exception 'event sequence % of subscription % has no event', new.event_sequence, new.id using errcode = 'check_violation';
  end if;
  return null;
end
$$;
create trigger event_takes_counter before insert on events for each row when (new.subscription_id is not null)
  execute function check_event_sequence();
create constraint trigger counter_has_event after update of event_sequence on subscriptions deferrable initially deferred
  for each row when (new.event_sequence <> old.event_sequence) execute function check_event_counter();

create table webhook_endpoints (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  url text not null,
  secret bytea not null,
  previous_secret bytea,
  rotated_at timestamptz,
  previous_since timestamptz,
  previous_until timestamptz,
  extra_events text[] not null default '{}' check (extra_events <@ array['renewal_upcoming', 'plan_blocked', 'subscription_paused',
    'subscription_unpaused', 'refund_recorded']),
  created_at timestamptz not null default now(),
  deleted_at timestamptz,
  constraint rotation_is_whole check ((rotated_at is null) = (previous_secret is null) and (rotated_at is null) = (previous_until is null))
);
comment on column webhook_endpoints.secret is 'AES-256-GCM: key number, nonce, ciphertext, tag (domain/secrets.ts)';
comment on column webhook_endpoints.previous_secret is 'the secret before rotated_at; also used for signing until previous_until';
comment on column webhook_endpoints.previous_since is 'the rotation before rotated_at; earlier attempts were signed with a secret that is no longer stored';
comment on column webhook_endpoints.extra_events is 'opt-in event types, in addition to those that every endpoint gets (takes_event)';
-- Whether an endpoint with these extra_events gets events of a type: opt-in types must be among them.
create function takes_event(extra_events text[], type text) returns boolean
language sql immutable parallel safe
as $$
  select type = any(extra_events)
    or type not in ('renewal_upcoming', 'plan_blocked', 'subscription_paused', 'subscription_unpaused', 'refund_recorded')
$$;
create unique index one_endpoint_per_app on webhook_endpoints (app_id) where deleted_at is null;
create index deleted_endpoints_by_app on webhook_endpoints (app_id, id) where deleted_at is not null;

-- Unfinished deliveries. Dispatchers claim rows with FOR UPDATE SKIP LOCKED. The columns of the claim are in no index and pages are half full,
-- so that a claim is a HOT update. The table stays small, so autovacuum uses a number of dead rows as threshold, not a share of the table.
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
comment on column delivery_queue.event_id is 'no foreign key, because events are dropped by the month; months with queued events are kept';
comment on column delivery_queue.attempts is 'number of failed requests; each is in earlier_attempts';
comment on column delivery_queue.replayed is 'queued by a replay, not by the statement that wrote the event';
comment on column delivery_queue.claimed_until is 'database time until which only the dispatcher with this claim_id may send it';
create index delivery_queue_by_due on delivery_queue (endpoint_id, due_at, id);
create index delivery_queue_by_endpoint on delivery_queue (endpoint_id, id);
create index delivery_queue_replayed on delivery_queue (event_id) where replayed;

-- Finished deliveries: inserted once, by the statement that deletes them from the queue, and never updated. Partitioned by month of the id.
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
    then status = 'cancelled' and last_duration_ms is null and last_http_status is null and last_error is null and last_response is null and last_address is null
    else attempts > 0 and last_duration_ms >= 0 and (last_http_status is null) = (last_error is not null) end)
) partition by range (id);
comment on table deliveries is 'no foreign keys: rows come from delivery_queue, which has them, and so dropping a month does not lock the referenced tables';
comment on column deliveries.last_started_at is 'this and the next five columns: the last attempt, null if the delivery was cancelled before its next attempt; earlier ones are in earlier_attempts';
comment on column deliveries.last_response is 'the first 4 KiB of the answer''s body, as received';
create index deliveries_by_endpoint on deliveries (endpoint_id, id);
-- Serve lists of failed or cancelled deliveries, newest first, of one endpoint or of all. Delivered rows are not in these indexes.
create index deliveries_undelivered on deliveries (id) where status in ('failed', 'cancelled');
create index deliveries_undelivered_by_endpoint on deliveries (endpoint_id, id) where status in ('failed', 'cancelled');
create index deliveries_replayed on deliveries (event_id) where replayed;
create table deliveries_default partition of deliveries default;
comment on table deliveries_default is 'as events_default';

-- Attempts with a scheduled retry. Written by the statement that returns the delivery to the queue, dropped with the month of the delivery.
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
comment on column earlier_attempts.response is 'the first 4 KiB of the answer''s body, as received';
create table earlier_attempts_default partition of earlier_attempts default;
comment on table earlier_attempts_default is 'as events_default';

create view all_deliveries as
  select id, endpoint_id, event_id, event_type, 'pending' as status, attempts, due_at as next_attempt_at, replay_of, replayed,
    made_at(id) as created_at, null::timestamptz as finished_at
  from delivery_queue
  union all
  select id, endpoint_id, event_id, event_type, status, attempts, null, replay_of, replayed, made_at(id), finished_at
  from deliveries;
comment on view all_deliveries is 'the queue and the log together, for reads';

create view delivery_attempts as
  select delivery_id, number, started_at, duration_ms, http_status, error, response, address from earlier_attempts
  union all
  select id, attempts, last_started_at, last_duration_ms, last_http_status, last_error, last_response, last_address
  from deliveries where last_started_at is not null;
comment on view delivery_attempts is 'every request; number 1 is the first of its delivery';

-- Creates missing partitions of this month and the next `ahead` months, and returns their names. Runs with the rights of the tables' owner, so
-- that a daemon only needs the right to execute it.
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
    where to_regclass(p || to_char(date_trunc('month', now() at time zone 'UTC') + n * interval '1 month', '_YYYY_MM')) is null) then
    return;
  end if;
  -- Takes the locks of the statements below (events, then the referenced tables) in the order of the writing transactions, which lock rows of
  -- subscriptions (exclusive mode waits for these) before they insert events. Another order could deadlock.
  lock table apps in share row exclusive mode;
  lock table subscriptions in exclusive mode;
  lock table only events, only deliveries, only earlier_attempts in access exclusive mode;
  for month in select date_trunc('month', now() at time zone 'UTC') + n * interval '1 month' from generate_series(0, ahead) n loop
    foreach parent in array parents loop
      part := parent || to_char(month, '_YYYY_MM');
      continue when to_regclass(part) is not null;
      execute format('create table %I partition of %I for values from (%L) to (%L)', part, parent,
        first_id_at(month at time zone 'UTC'), first_id_at((month + interval '1 month') at time zone 'UTC'));
      if parent = 'events' then
        execute format('alter table %I add constraint %I unique (subscription_id, sequence)', part, 'sequence_is_unique_' || to_char(month, 'YYYY_MM'));
      end if;
      return next part;
    end loop;
  end loop;
end
$$;
revoke execute on function make_months(int) from public;

-- Whether deliveries of events with ids in [first_id, end_id) still exist. The first delivery of an event is in the event's month; later ones are replays.
create function month_is_used(suffix text, first_id uuid, end_id uuid) returns boolean
language sql stable
as $$
  select to_regclass('deliveries_' || suffix) is not null
    or exists (select from delivery_queue where event_id < end_id)
    or exists (select from deliveries where replayed and event_id >= first_id and event_id < end_id)
$$;

-- Drops the oldest month of deliveries (with their attempts) or of events that ended more than `days` ago, and returns it as YYYY_MM; null when there
-- is none. A month of events is dropped after all its deliveries. Call it with a lock_timeout, because it waits for every statement on these tables.
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
    -- Checked again under the lock, because a replay that read an event before the lock has now committed its delivery.
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
  created_at timestamptz not null default now(),
  finished_at timestamptz
);
comment on table replays is 'replay runs; the transaction that queues also advances the cursor, so that an interrupted run can be resumed';
comment on column replays.app_id is 'the app of a run requested over the API, which serve executes; null for a run of the command';
comment on column replays.selection is 'the filters or ids as canonical JSON, by which the same command finds its interrupted run';
comment on column replays.until is 'upper bound of the creation time, which excludes later rows and those of the run itself';
create unique index one_open_replay_per_selection on replays (md5(selection)) where finished_at is null;
create index replays_requested on replays (id) where finished_at is null and app_id is not null;
