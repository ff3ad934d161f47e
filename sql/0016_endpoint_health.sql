-- Written by dispatchers every few seconds, apart from the outcomes, so that the outcomes stay cheap.
create table endpoint_health (
  endpoint_id uuid primary key references webhook_endpoints,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  failing_since timestamptz,
  last_error text,
  constraint failure_is_whole check ((last_failure_at is null) = (last_error is null))
) with (fillfactor = 50);
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
