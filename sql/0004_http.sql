-- What the API keeps to give the same answer twice, to count requests over all processes, and to list fast.

create table idempotency_keys (
  scope text not null,
  key text not null check (length(key) between 1 and 255),
  fingerprint bytea not null,
  status int not null,
  body text not null,
  created_at timestamptz not null default now(),
  primary key (scope, key)
);
comment on table idempotency_keys is 'answers of POST requests that carried an Idempotency-Key, for 24 hours; written in the transaction of what they tell of';
comment on column idempotency_keys.scope is 'whose key it is: merchant:<id> or subscriber:<wallet>';
comment on column idempotency_keys.fingerprint is 'SHA-256 of the path and the body';
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- Unlogged: a crash may forget counts of a minute, and granting must not wait for the disk.
create unlogged table rate_budgets (
  subject text primary key,
  window_ends_at timestamptz not null,
  granted int not null check (granted >= 0),
  lease int not null check (lease >= 0)
) with (fillfactor = 50);
comment on table rate_budgets is 'requests of the current minute, handed out to serve processes in leases';
comment on column rate_budgets.granted is 'requests handed out in this window, spent or not';
comment on column rate_budgets.lease is 'how many of them the last grant was';

-- The orders of the lists, with the filters that are equalities in front: one for each set of them (src/db/registrations.ts and its like). Where
-- a filter on the status is missing, the list is put together out of those of each status. No two of a table begin with the same column: a planner
-- that takes an app or a wallet to have a row or two would read the other one and sort. To it, a column with another collation is another column,
-- and so is one with its nulls (there are none) at the other end.
create index subscriptions_by_app_time on subscriptions (app_id, created_at, id);
create index subscriptions_by_app_status on subscriptions (status, app_id, created_at, id);
create index subscriptions_by_plan on subscriptions (plan_id, status, created_at, id);
create index subscriptions_by_wallet_app on subscriptions (subscriber_wallet collate "C", app_id, status, created_at, id);
create index subscriptions_by_wallet_plan on subscriptions (subscriber_wallet collate "POSIX", plan_id, status, created_at, id);
create index payments_by_plan on payments (plan_id, status, occurred_at, id);
create index payments_by_app_status on payments (status, app_id, occurred_at, id);
create index events_by_app_time on events (app_id nulls first, created_at, id);
create index events_by_app_type on events (type, app_id, created_at, id);
create index deliveries_by_endpoint on deliveries (endpoint_id, status, id) with (fillfactor = 50);
create index deliveries_by_type on deliveries (event_type, endpoint_id, status, id) with (fillfactor = 50);

-- Unlogged: samples are for whoever tries out a receiver just now.
create unlogged table sample_events (
  id uuid primary key,
  app_id uuid not null references apps,
  type text not null,
  body text not null,
  created_at timestamptz not null default date_trunc('milliseconds', now())
);
comment on table sample_events is 'events that merchants triggered to try their receivers out: sent once, shown to "billing listen", part of no subscription''s sequence; kept for an hour';
create index sample_events_by_app on sample_events (app_id, created_at, id);
create index sample_events_by_age on sample_events (created_at);
