-- Merchants, their apps and API keys, and the nonces of wallet sign-ins.

-- RFC 9562 version 7 with microseconds in rand_a, so that ids sort by the time of their creation, by the database's clock.
create function uuid_v7() returns uuid
language sql volatile parallel safe
as $$
  select (overlay(lpad(to_hex(floor(date_part('epoch', clock_timestamp()) * 4096000)::int8), 15, '0') placing '7' from 13 for 0)
    || substr(gen_random_uuid()::text, 20))::uuid
$$;

create table merchants (
  id uuid primary key default uuid_v7(),
  wallet text not null unique,
  name text check (length(name) between 1 and 120),
  email text check (length(email) <= 254),
  tier text not null default 'free' check (tier in ('free', 'pro')),
  fee_bps int check (fee_bps between 0 and 10000),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on column merchants.fee_bps is 'null: the operator''s default, PLATFORM_FEE_BPS';

create table api_keys (
  id uuid primary key default uuid_v7(),
  merchant_id uuid not null references merchants,
  prefix text not null,
  hash bytea not null unique check (octet_length(hash) = 32),
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
comment on column api_keys.hash is 'SHA-256 of the key; the key itself is not stored';
create index api_keys_by_merchant on api_keys (merchant_id, id);

create table auth_nonces (
  nonce text primary key,
  wallet text not null,
  role text not null check (role in ('merchant', 'subscriber')),
  message text not null,
  expires_at timestamptz not null
);
comment on table auth_nonces is 'the sign-in that uses a nonce deletes its row, so that it works once';
create index auth_nonces_by_expiry on auth_nonces (expires_at);

create table apps (
  id uuid primary key default uuid_v7(),
  merchant_id uuid not null references merchants,
  name text not null check (length(name) between 1 and 120),
  description text,
  website_url text,
  return_origins text[] not null default '{}' check (cardinality(return_origins) <= 10),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index apps_by_merchant on apps (merchant_id, id);
