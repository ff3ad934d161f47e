alter table webhook_endpoints
  add column disabled_at timestamptz,
  add column disabled_reason text check (disabled_reason in ('merchant', 'failing')),
  add column enabled_at timestamptz,
  add constraint disabled_has_reason check ((disabled_at is null) = (disabled_reason is null));
comment on column webhook_endpoints.disabled_at is 'no event is queued for the endpoint and nothing is sent to it since this time';
comment on column webhook_endpoints.disabled_reason is 'merchant: over the API; failing: by a dispatcher, after ENDPOINT_DISABLE_DAYS of failures';
comment on column webhook_endpoints.enabled_at is 'end of the last time that it was disabled: earlier failures do not disable it again';
