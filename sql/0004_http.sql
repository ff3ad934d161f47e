-- What the API keeps to give the same answer twice, and to count requests over all processes.

create table idempotency_keys (
  scope text not null,
  key text not null check (length(key) between 1 and 255),
  fingerprint bytea not null,
  status int not null,
  body bytea not null,
  created_at timestamptz not null default now(),
  primary key (scope, key)
);
comment on table idempotency_keys is 'answers of POST requests that carried an Idempotency-Key, for 24 hours; written in the transaction of what they tell of';
comment on column idempotency_keys.scope is 'whose key it is: merchant:<id> or subscriber:<wallet>';
comment on column idempotency_keys.fingerprint is 'SHA-256 of the path and the body';
comment on column idempotency_keys.body is 'the answer, which may hold a secret that is shown once: AES-256-GCM (domain/secrets.ts)';
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- Unlogged: a crash may forget a minute's counts, and a request does not wait for the disk.
create unlogged table rate_budgets (
  subject text not null,
  number int not null,
  ends_at timestamptz not null,
  spent int not null check (spent >= 0),
  granted int not null check (granted >= 0),
  most int not null check (most >= 0),
  primary key (subject, number)
) with (fillfactor = 50);
comment on table rate_budgets is 'requests per subject and window of a minute; a subject''s newest window has its highest number';
comment on column rate_budgets.spent is 'requests of the window within the limit';
comment on column rate_budgets.granted is 'how many requests of the last statement were within the limit';
comment on column rate_budgets.most is 'the limit as of the last statement';

-- Unlogged: samples are for whoever tries out a receiver just now.
create unlogged table sample_events (
  id uuid primary key,
  app_id uuid not null references apps,
  type text not null,
  body text not null,
  created_at timestamptz not null default date_trunc('milliseconds', now())
);
comment on table sample_events is 'events that merchants triggered to try their receivers out: sent once, shown to "billing listen", part of no subscription''s sequence; kept for an hour';
create index sample_events_by_app on sample_events (app_id, id);
create index sample_events_by_age on sample_events (created_at);

-- Unlogged: each reader is written again by its next request.
create unlogged table event_readers (
  id uuid primary key,
  app_id uuid not null references apps,
  until timestamptz not null
) with (fillfactor = 50);
comment on table event_readers is 'who follows an app''s events ("billing listen"), for "billing trigger" to count; each request of a reader puts "until" off';
create index event_readers_by_app on event_readers (app_id);
