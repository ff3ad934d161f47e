-- The outbox: events, written in the transactions of the changes that they tell, and the feed by
-- which developers read them.

-- Partitioned by month of the id: 0006_delivering.sql has make_months(), which creates the
-- partitions, and drop_month(), which drops those past the retention time.
create table events (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  subscription_id uuid references subscriptions,
  sequence int8 check (sequence > 0),
  type text not null check (type in ('subscription_created', 'payment_success', 'payment_failed',
    'cancel_requested', 'cancel_finalized', 'cancel_forced', 'delegation_revoked',
    'subscription_resumed', 'renewal_upcoming', 'plan_blocked', 'subscription_paused',
    'subscription_unpaused', 'refund_recorded', 'invoice_voided', 'invoice_uncollectible',
    'credit_changed', 'endpoint_disabled')),
  body text not null,
  traceparent text,
  queued boolean not null default false,
  created_at timestamptz not null,
  constraint of_subscription_or_plan check (
    (type in ('plan_blocked', 'credit_changed', 'endpoint_disabled')) = (subscription_id is null)
    and (subscription_id is null) = (sequence is null))
) partition by range (id);
comment on table events is 'what happened to a subscription, a plan, a customer or an endpoint, as webhooks tell it';
comment on column events.sequence is 'counts the events of the subscription from 1, without gaps';
comment on column events.body is 'the exact text that every attempt and replay sends';
comment on column events.traceparent is 'the header of the request that caused the event; null: the trace id is the event''s id';
comment on column events.queued is 'whether the statement that wrote the event queued a delivery, because the app had an endpoint for its type';
comment on column events.created_at is 'the time in the id, in milliseconds';
create index events_by_app on events (app_id, id);
create table events_default partition of events
  (constraint sequence_is_unique_default unique (subscription_id, sequence)) default;
comment on table events_default is 'empty as long as make_months() runs in time; monitored by a gauge and an alert';

-- Sequences have no gaps per subscription: the counter increases by one, an event gets the counter
-- value of its own transaction, and an increased counter without its event does not commit. Unique
-- indexes cannot check this, because they only cover one partition.
create function check_event_sequence() returns trigger language plpgsql as $$
begin
  if not exists (select from subscriptions
    where id = new.subscription_id and event_sequence = new.sequence
      and xmin = pg_current_xact_id()::xid) then
    raise exception 'event sequence % of subscription % is not its counter',
      new.sequence, new.subscription_id using errcode = 'check_violation';
  end if;
  return new;
end
$$;
create function check_event_counter() returns trigger language plpgsql as $$
begin
  -- The event was written in this transaction. The bound on its id excludes older partitions; a day
  -- allows for a clock that is set back.
  if new.event_sequence <> old.event_sequence + 1 or not exists (select from events
    where subscription_id = new.id and sequence = new.event_sequence
      and id >= first_id_at(now() - interval '1 day')) then
    raise exception 'event sequence % of subscription % has no event',
      new.event_sequence, new.id using errcode = 'check_violation';
  end if;
  return null;
end
$$;
create trigger event_takes_counter before insert on events
  for each row when (new.subscription_id is not null) execute function check_event_sequence();
create constraint trigger counter_has_event after update of event_sequence on subscriptions
  deferrable initially deferred for each row when (new.event_sequence <> old.event_sequence)
  execute function check_event_counter();

-- Returns when the oldest transaction of this database that may still write began: the feed ends
-- before it. Ignores transactions older than 10 s that have written nothing (a dump). Returns one
-- minute ago while sessions are hidden. Runs with the rights of the owner, which has
-- pg_read_all_stats, so that no daemon can read the statements of others.
create function oldest_writer() returns timestamptz
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select least(
    min(xact_start) filter (where backend_xid is not null
      or xact_start > now() - interval '10 seconds'),
    case when bool_or(query = '<insufficient privilege>') then now() - interval '1 minute' end
  )
  from pg_stat_activity
  where datname = current_database() and (backend_type = 'client backend' or backend_type is null)
$$;
revoke execute on function oldest_writer() from public;

-- Unlogged: the next request of a reader writes its row again.
create unlogged table event_readers (
  id uuid primary key,
  app_id uuid not null references apps,
  until timestamptz not null
) with (fillfactor = 50);
comment on table event_readers is 'readers of an app''s event feed ("billing listen"), counted by "billing trigger"; each request of a reader extends "until"';
create index event_readers_by_app on event_readers (app_id);

-- Unlogged: samples only matter while a developer tests a receiver.
create unlogged table sample_events (
  id uuid primary key,
  app_id uuid not null references apps,
  type text not null,
  body text not null,
  created_at timestamptz not null default date_trunc('milliseconds', now())
);
comment on table sample_events is 'sample events that merchants triggered to test receivers: sent once, visible to "billing listen", without a sequence number; kept for an hour';
create index sample_events_by_app on sample_events (app_id, id);
create index sample_events_by_age on sample_events (created_at);
