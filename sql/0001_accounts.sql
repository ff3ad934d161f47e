-- Merchants, their apps and API keys; sign-ins, suspensions and limits of requests; ids.

-- Ids are UUIDs version 7 (RFC 9562) with microseconds in rand_a. They sort by the time of their
-- creation, by the database's clock.
create function uuid_v7() returns uuid
language sql volatile parallel safe
as $$
  select (overlay(
      lpad(to_hex(floor(date_part('epoch', clock_timestamp()) * 4096000)::int8), 15, '0')
      placing '7' from 13 for 0)
    || substr(gen_random_uuid()::text, 20))::uuid
$$;
-- The time of creation in an id of uuid_v7().
create function made_at(id uuid) returns timestamptz
language sql immutable strict parallel safe
as $$
  select to_timestamp((
      ('x0000' || substr(id::text, 1, 8) || substr(id::text, 10, 4))::bit(64)::int8 * 1000
        + ((('x0' || substr(id::text, 16, 3))::bit(16)::int * 1000) >> 12)
    ) / 1000000::float8)
$$;
-- The lowest id of a time, in milliseconds: rows created before that time have lower ids.
create function first_id_at(moment timestamptz) returns uuid
language sql stable strict parallel safe
as $$
  select (lpad(to_hex(floor(extract(epoch from moment) * 1000)::int8), 12, '0')
    || '70000000000000000000')::uuid
$$;
-- The same in microseconds, as in the ids of uuid_v7().
create function id_at(moment timestamptz) returns uuid
language sql stable strict parallel safe
as $$
  select (overlay(
      lpad(to_hex(floor(date_part('epoch', moment) * 4096000)::int8), 15, '0')
      placing '7' from 13 for 0)
    || repeat('0', 16))::uuid
$$;

create table merchants (
  id uuid primary key default uuid_v7(),
  wallet text not null unique,
  name text check (length(name) between 1 and 120),
  tier text not null default 'free' check (tier in ('free', 'pro')),
  fee_bps int check (fee_bps between 0 and 10000),
  approved_at timestamptz,
  sponsoring_lamports int8 constraint sponsoring_is_not_negative check (sponsoring_lamports >= 0),
  email text check (length(email) <= 254),
  email_given_at timestamptz,
  email_confirmed_at timestamptz,
  mails boolean not null default true,
  legal_name text check (length(legal_name) between 1 and 120),
  legal_address text check (length(legal_address) between 1 and 500),
  tax_id text check (length(tax_id) between 1 and 60),
  keep_buyer_details boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
comment on table merchants is 'merchants, each a wallet that has signed in';
comment on column merchants.fee_bps is 'null: the operator''s default, PLATFORM_FEE_BPS';
comment on column merchants.approved_at is 'when an operator approved it (MERCHANTS=approval)';
comment on column merchants.sponsoring_lamports is 'sponsored rent of its subscribers that may be out, as an operator vouches; null: no operator does';
comment on column merchants.email_given_at is 'when the merchant last gave the address; links of earlier confirmations are void';
comment on column merchants.email_confirmed_at is 'the link in the confirmation was opened; other e-mails are sent only then';
comment on column merchants.mails is 'whether e-mails about failures are sent to the merchant';
comment on column merchants.legal_name is 'the seller on receipts, with legal_address and tax_id; null: the name of the merchant or the app';
comment on column merchants.keep_buyer_details is 'whether the details that buyers type on receipts are stored; otherwise they are on the printed page only';

create function email_changed() returns trigger language plpgsql as $$
begin
  new.email_confirmed_at := null;
  new.email_given_at := now();
  return new;
end $$;
create trigger changed_email before update of email on merchants
  for each row when (new.email is distinct from old.email) execute function email_changed();

create table apps (
  id uuid primary key default uuid_v7(),
  merchant_id uuid not null references merchants,
  name text not null check (length(name) between 1 and 120),
  description text,
  website_url text,
  website_proven_at timestamptz,
  logo_version text check (logo_version ~ '^[0-9a-f]{16}$'),
  support_email text,
  support_url text,
  terms_url text,
  privacy_url text,
  return_origins text[] not null default '{}' check (cardinality(return_origins) <= 10),
  register_unclaimed boolean not null default false,
  one_per_customer boolean not null default true,
  own_ids_by_subscriber boolean not null default false,
  plan_changes boolean not null default true,
  sponsorship text not null default 'on' check (sponsorship in ('on', 'off')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint proven_website_is_given check (website_proven_at is null or website_url is not null)
);
comment on table apps is 'what a merchant sells subscriptions to: a product, with plans, pages and a webhook endpoint of its own';
comment on column apps.website_proven_at is 'when /.well-known/billing.json at website_url named the app; null while nothing proves that the website is the merchant''s';
comment on column apps.logo_version is 'the start of the SHA-256 of the logo in app_logos; null without a logo';
comment on column apps.register_unclaimed is 'a subscription on chain that the service did not offer is registered too';
comment on column apps.one_per_customer is 'a customer (external_id) has one live subscription to plans of the app';
comment on column apps.own_ids_by_subscriber is 'a wallet may set external_id and metadata in its registration, where they are unverified';
comment on column apps.plan_changes is 'subscribers may change to another active plan of the app; otherwise only in a checkout session';
comment on column apps.sponsorship is 'off: no transaction for plans of the app is sponsored';
create index apps_by_merchant on apps (merchant_id, id);

create table app_logos (
  app_id uuid primary key references apps,
  content_type text not null check (content_type in ('image/png', 'image/webp')),
  image bytea not null check (length(image) between 1 and 65536),
  stored_at timestamptz not null default now()
);
comment on table app_logos is 'the logo of an app, as its merchant sent it, once it was decoded';

create table api_keys (
  id uuid primary key default uuid_v7(),
  merchant_id uuid not null references merchants,
  prefix text not null,
  hash bytea not null unique check (octet_length(hash) = 32),
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at timestamptz
);
comment on table api_keys is 'keys with which a merchant''s servers use the API';
comment on column api_keys.hash is 'SHA-256 of the key; the key itself is not stored';
create index api_keys_by_merchant on api_keys (merchant_id, id);

create function keep_key_revoked() returns trigger language plpgsql as $$
begin
  raise exception 'a revoked API key stays revoked'
    using errcode = 'check_violation', table = 'api_keys', column = 'revoked_at';
end
$$;
create trigger key_stays_revoked before update on api_keys for each row
  when (old.revoked_at is not null and new.revoked_at is null) execute function keep_key_revoked();

create table auth_nonces (
  nonce text primary key,
  wallet text not null,
  role text not null check (role in ('merchant', 'subscriber')),
  message text not null,
  expires_at timestamptz not null
);
comment on table auth_nonces is 'messages that wallets were asked to sign; the sign-in that uses a nonce deletes its row, so that it works once';
create index auth_nonces_by_expiry on auth_nonces (expires_at);

create table suspensions (
  id uuid primary key default uuid_v7(),
  role text not null check (role in ('merchant', 'subscriber')),
  wallet text not null,
  reason text not null check (length(reason) between 1 and 500),
  waiting boolean not null default false,
  since timestamptz not null default now(),
  constraint one_suspension_per_wallet unique (role, wallet),
  constraint merchants_wait check (not waiting or role = 'merchant')
);
comment on table suspensions is 'a suspended wallet changes nothing over the API, and none of its payments is signed';
comment on column suspensions.waiting is 'a new merchant that waits for the operator''s approval (MERCHANTS=approval)';

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
comment on column idempotency_keys.body is 'the response, encrypted because it may contain a secret that is only shown once: AES-256-GCM (domain/accounts/secrets.ts)';
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
