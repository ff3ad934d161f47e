alter table webhook_endpoints
  add column headers bytea,
  add column header_names text[] not null default '{}' check (cardinality(header_names) <= 10),
  add column max_per_second int check (max_per_second between 1 and 1000),
  add column settings_at timestamptz,
  add constraint headers_have_names check ((headers is null) = (cardinality(header_names) = 0));
comment on column webhook_endpoints.headers is 'the merchant''s own headers as JSON, encrypted like the secret';
comment on column webhook_endpoints.max_per_second is 'requests per second of all dispatchers together; null: no limit';
comment on column webhook_endpoints.settings_at is 'last change of headers or max_per_second, by which dispatchers notice it';
