-- Stored responses for Idempotency-Keys, and rate limits shared by all processes.

create table idempotency_keys (
  scope text not null,
  key text not null check (length(key) between 1 and 255),
  fingerprint bytea not null,
  status int not null,
  body bytea not null,
  created_at timestamptz not null default now(),
  primary key (scope, key)
);
comment on table idempotency_keys is 'responses to POST requests with an Idempotency-Key, kept for 24 hours; written in the transaction of the request''s changes';
comment on column idempotency_keys.scope is 'the owner of the key: merchant:<id> or subscriber:<wallet>';
comment on column idempotency_keys.fingerprint is 'SHA-256 of the path and the body';
comment on column idempotency_keys.body is 'the response, encrypted because it may contain a secret that is only shown once: AES-256-GCM (domain/secrets.ts)';
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- Unlogged: a crash may lose the counts of a minute, and a request does not wait for the disk.
create unlogged table rate_budgets (
  subject text not null,
  number int not null,
  ends_at timestamptz not null,
  spent int not null check (spent >= 0),
  granted int not null check (granted >= 0),
  most int not null check (most >= 0),
  primary key (subject, number)
) with (fillfactor = 50);
comment on table rate_budgets is 'requests per subject and window of a minute; the newest window of a subject has the highest number';
comment on column rate_budgets.spent is 'requests of the window within the limit';
comment on column rate_budgets.granted is 'number of requests of the last statement within the limit';
comment on column rate_budgets.most is 'the limit in the last statement';

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

-- Unlogged: the next request of a reader writes its row again.
create unlogged table event_readers (
  id uuid primary key,
  app_id uuid not null references apps,
  until timestamptz not null
) with (fillfactor = 50);
comment on table event_readers is 'readers of an app''s event feed ("billing listen"), counted by "billing trigger"; each request of a reader extends "until"';
create index event_readers_by_app on event_readers (app_id);
