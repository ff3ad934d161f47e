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

-- Each row is updated once as a rule: finished (never HOT: it leaves the lane's index). Half-filled pages, of the table and of its indexes, take
-- that without splitting: 3 of 15 us of Postgres's time per delivery.
create table deliveries (
  id uuid default uuid_v7() primary key with (fillfactor = 50),
  endpoint_id uuid not null references webhook_endpoints,
  event_id uuid not null references events,
  event_type text not null,
  status text not null default 'pending' check (status in ('pending', 'delivered', 'failed', 'cancelled')),
  attempts int not null default 0 check (attempts between 0 and 6),
  due_at timestamptz not null default now(),
  replay_of uuid references deliveries on delete set null,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint finished_has_time check ((status = 'pending') = (finished_at is null))
) with (fillfactor = 50);
-- A lane: one endpoint's first sendings (0) or its retries (1), oldest due first. Dispatchers read the head of each lane; finished rows are not in it.
create index deliveries_by_lane on deliveries (endpoint_id, least(attempts, 1), due_at, id) where finished_at is null;
create index deliveries_by_endpoint on deliveries (endpoint_id, id) with (fillfactor = 50);
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

-- No foreign key to deliveries: its check took 9 us of Postgres's time per attempt, a quarter of the whole. Attempts are written in one place, by
-- the statement that updates their delivery, and deleted in one, with it.
create table delivery_attempts (
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
comment on column delivery_attempts.response is 'the first 4 KiB of the answer''s body, as received';

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
