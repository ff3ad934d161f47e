-- The outbox (events), where they go (endpoints) and how that went (deliveries and their attempts).

create table events (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  subscription_id uuid not null references subscriptions,
  sequence int8 not null check (sequence > 0),
  type text not null check (type in ('subscription_created', 'payment_success', 'payment_failed', 'cancel_requested', 'cancel_finalized',
    'cancel_forced', 'delegation_revoked', 'subscription_resumed')),
  body text not null,
  created_at timestamptz not null,
  constraint sequence_is_unique unique (subscription_id, sequence)
);
comment on column events.body is 'the exact text that every attempt and replay sends';
create index events_by_app on events (app_id, id);

-- Gapless per subscription: the counter moves by one, an event takes the counter's value, and a moved counter without its event does not commit.
create function check_event_sequence() returns trigger language plpgsql as $$
begin
  if tg_table_name = 'events' then
    if new.sequence <> (select event_sequence from subscriptions where id = new.subscription_id) then
      raise exception 'event sequence % of subscription % is not its counter', new.sequence, new.subscription_id using errcode = 'check_violation';
    end if;
    return new;
  end if;
  if new.event_sequence <> old.event_sequence + 1
    or not exists (select from events where subscription_id = new.id and sequence = new.event_sequence) then
    raise exception 'event sequence % of subscription % has no event', new.event_sequence, new.id using errcode = 'check_violation';
  end if;
  return null;
end
$$;
create trigger event_takes_counter before insert on events for each row execute function check_event_sequence();
create constraint trigger counter_has_event after update of event_sequence on subscriptions deferrable initially deferred
  for each row when (new.event_sequence <> old.event_sequence) execute function check_event_sequence();

create table webhook_endpoints (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  url text not null,
  secret bytea not null,
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
comment on column webhook_endpoints.secret is 'AES-256-GCM: key number, nonce, ciphertext, tag (domain/secrets.ts)';
create unique index one_endpoint_per_app on webhook_endpoints (app_id) where deleted_at is null;

-- When a version 7 id was made (RFC 9562, with the microseconds that uuid_v7 puts behind the milliseconds).
create function made_at(id uuid) returns timestamptz
language sql immutable strict parallel safe
as $$
  select to_timestamp((
      ('x0000' || substr(id::text, 1, 8) || substr(id::text, 10, 4))::bit(64)::int8 * 1000
        + ((('x0' || substr(id::text, 16, 3))::bit(16)::int * 1000) >> 12)
    ) / 1000000::float8)
$$;
-- The lowest version 7 id that can be made at a time: what is older than that has a lower one.
create function first_id_at(moment timestamptz) returns uuid
language sql stable strict parallel safe
as $$
  select (lpad(to_hex(floor(extract(epoch from moment) * 1000)::int8), 12, '0') || '70000000000000000000')::uuid
$$;

-- Each row is updated once as a rule: finished, with its only attempt. That is never HOT, since the row leaves its lane and changes its
-- place in the lists: each index more costs a delivery 1.4 us of Postgres's time. So the lists go by the id, whose time is the row's. Half-filled
-- pages, of the table and of its indexes, take the update without splitting: 3 of 15 us.
create table deliveries (
  id uuid default uuid_v7() primary key with (fillfactor = 50),
  endpoint_id uuid not null references webhook_endpoints,
  event_id uuid not null references events,
  event_type text not null,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed', 'cancelled')),
  attempts int not null default 0 check (attempts between 0 and 6),
  due_at timestamptz not null default now(),
  replay_of uuid references deliveries on delete set null,
  created_at timestamptz not null generated always as (made_at(id)) stored,
  finished_at timestamptz,
  last_started_at timestamptz,
  last_duration_ms int,
  last_http_status int,
  last_error text,
  last_response bytea,
  last_address text,
  constraint finished_has_time check ((status = 'pending') = (finished_at is null)),
  constraint last_attempt_is_whole check (case when last_started_at is null
    then last_duration_ms is null and last_http_status is null and last_error is null and last_response is null and last_address is null
    else attempts > 0 and last_duration_ms >= 0 and (last_http_status is null) = (last_error is not null) end)
) with (fillfactor = 50);
comment on column deliveries.last_started_at is 'this and the next five: the last attempt; those before it are in earlier_attempts, all of them in delivery_attempts';
comment on column deliveries.last_response is 'the first 4 KiB of the answer''s body, as received';
-- A lane: one endpoint's first sendings (0) or its retries (1), oldest due first. Dispatchers read the head of each lane; finished rows are not in it.
create index deliveries_by_lane on deliveries (endpoint_id, least(attempts, 1), due_at, id) where finished_at is null;
create index deliveries_by_event on deliveries (event_id) with (fillfactor = 50);
-- For those who look into failures, newest first over all endpoints. A delivery that goes well never enters it.
create index deliveries_undelivered on deliveries (id) where status in ('failed', 'cancelled');
create index deliveries_by_replayed on deliveries (replay_of) where replay_of is not null;
comment on column deliveries.event_type is 'the event''s, so that an endpoint''s deliveries of a type are in an index';

-- An endpoint belongs to one dispatcher at a time: one small row is written now and then, where a claim of each delivery took a third of Postgres's
-- time and half of the WAL.
create table delivery_leases (
  endpoint_id uuid primary key references webhook_endpoints,
  claim_id uuid not null,
  lease_until timestamptz not null,
  wanted_until timestamptz not null default '-infinity'
) with (fillfactor = 25);
comment on column delivery_leases.lease_until is 'database time until which the dispatcher with this claim_id alone sends to the endpoint; whoever finds it past may take it over';
comment on column delivery_leases.wanted_until is 'database time until which a dispatcher with little to do would take the endpoint over; one that is busy hands it over';

-- Attempts that another came after. No foreign key to deliveries: its check took 9 us of Postgres's time per attempt. They are written in one place,
-- by the statement that updates their delivery, and deleted in one, with it.
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
);
comment on column earlier_attempts.response is 'the first 4 KiB of the answer''s body, as received';

-- The last attempt is part of its delivery's row: nearly all have no other, and a row of its own took 3 us more.
create view delivery_attempts as
  select delivery_id, number, started_at, duration_ms, http_status, error, response, address from earlier_attempts
  union all
  select id, attempts, last_started_at, last_duration_ms, last_http_status, last_error, last_response, last_address
  from deliveries where last_started_at is not null;
comment on view delivery_attempts is 'every request that was made: number 1 is the first of its delivery';

create table replays (
  id uuid primary key default uuid_v7(),
  selection text not null,
  until timestamptz not null,
  stage text not null default 'deliveries' check (stage in ('deliveries', 'events')),
  cursor uuid,
  total int not null check (total >= 0),
  queued int not null default 0 check (queued >= 0),
  created_at timestamptz not null default now(),
  finished_at timestamptz
);
comment on table replays is 'runs of billing replay: the cursor moves in the transaction that queues, so that an interrupted run goes on where it was';
comment on column replays.selection is 'the filters or ids, as canonical JSON: the same command finds its interrupted run by it';
comment on column replays.until is 'rows created later, the run''s own among them, are not part of it';
create unique index one_open_replay_per_selection on replays (md5(selection)) where finished_at is null;
