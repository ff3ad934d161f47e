-- Sponsored transactions: a keeper's key pays the network fee and the rent of a transaction that the wallet signed first.

alter table apps
  add column sponsorship text not null default 'on' check (sponsorship in ('on', 'off'));
comment on column apps.sponsorship is 'off: no transaction for plans of the app is sponsored';

create table sponsored_offers (
  id uuid primary key default uuid_v7(),
  purpose text not null
    check (purpose in ('subscribe', 'cancel', 'resume', 'close', 'repair', 'revoke')),
  wallet text not null,
  sponsor text not null,
  plan_id uuid references plans on delete cascade,
  subscription_pda text,
  checkout_session_id uuid references checkout_sessions on delete cascade,
  address text not null,
  origin text,
  secret_hash bytea check (length(secret_hash) = 32),
  message bytea not null,
  blockhash text not null,
  last_valid_block_height bigint not null,
  blockhash_slot bigint not null,
  compute_units int not null check (compute_units > 0),
  unit_price bigint not null check (unit_price >= 0),
  loaded_data_bytes int not null check (loaded_data_bytes > 0),
  withdraws boolean not null default false,
  created_at timestamptz not null default now(),
  signed bytea check (length(signed) between 1 and 1232),
  signed_at timestamptz,
  constraint offer_names_plan check ((purpose = 'revoke') = (plan_id is null)),
  constraint offer_names_subscription check ((purpose = 'revoke') = (subscription_pda is null)),
  constraint signed_is_whole check ((signed is null) = (signed_at is null))
);
create index sponsored_offers_by_age on sponsored_offers (created_at);
create index sponsored_offers_signed on sponsored_offers (signed_at) where signed is not null;
create index sponsored_offers_by_session on sponsored_offers (checkout_session_id)
  where checkout_session_id is not null;
create index sponsored_offers_by_plan on sponsored_offers (plan_id) where plan_id is not null;
comment on table sponsored_offers is 'sponsored transactions offered to wallets, written by serve; a keeper rebuilds the message and never signs stored bytes; kept for a day';
comment on column sponsored_offers.address is 'network of the client that asked for the offer, for its budget';
comment on column sponsored_offers.origin is 'Origin of the page that asked; only it may use the secret';
comment on column sponsored_offers.secret_hash is 'SHA-256 of the secret that stands for the wallet; null for an offer to a signed-in wallet';
comment on column sponsored_offers.withdraws is 'close: revokes the approval too; revoke: closes the authority too';
comment on column sponsored_offers.signed is 'the transaction with the wallet''s signature, as the page sent it';

create table sponsorships (
  offer_id uuid primary key,
  purpose text not null
    check (purpose in ('subscribe', 'cancel', 'resume', 'close', 'repair', 'revoke')),
  wallet text not null,
  address text not null,
  sponsor text not null,
  merchant_id uuid references merchants,
  plan_id uuid references plans,
  subscription_pda text,
  checkout_session_id uuid references checkout_sessions on delete set null,
  subscription_id uuid references subscriptions,
  transaction_id uuid unique references transactions,
  state text not null check (state in ('refused', 'open', 'landed', 'failed', 'expired')),
  reason text,
  seen text check (seen in ('processed', 'confirmed')),
  reserved bigint not null default 0 check (reserved >= 0),
  fee bigint not null default 0 check (fee >= 0),
  authority_rent bigint not null default 0 check (authority_rent >= 0),
  subscription_rent bigint not null default 0 check (subscription_rent >= 0),
  authority_returned_at timestamptz,
  subscription_returned_at timestamptz,
  checked_at timestamptz not null default now(),
  claim_id uuid,
  lease_until timestamptz,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint refused_has_no_transaction check ((state = 'refused') = (transaction_id is null)),
  constraint open_has_no_end check ((state = 'open') = (ended_at is null)),
  constraint refused_or_failed_has_reason
    check ((state in ('refused', 'failed')) = (reason is not null)),
  constraint sponsorship_claim_is_whole check ((claim_id is null) = (lease_until is null))
);
create unique index one_sponsored_signup_per_wallet on sponsorships (wallet)
  where state = 'open' and purpose = 'subscribe';
create index sponsorships_by_time on sponsorships (created_at);
create index sponsorships_with_address on sponsorships (created_at) where address <> '';
create index sponsorships_open on sponsorships (lease_until) where state = 'open';
create index sponsorships_out on sponsorships (checked_at)
  where state = 'landed' and ((authority_rent > 0 and authority_returned_at is null)
    or (subscription_rent > 0 and subscription_returned_at is null));
create index sponsorships_by_wallet on sponsorships (wallet);
create index sponsorships_by_pda on sponsorships (subscription_pda)
  where subscription_pda is not null;
create index sponsorships_out_by_merchant on sponsorships (merchant_id)
  where state = 'landed' and ((authority_rent > 0 and authority_returned_at is null)
    or (subscription_rent > 0 and subscription_returned_at is null));
create index sponsorships_by_subscription on sponsorships (subscription_id)
  where subscription_id is not null;
create index sponsorships_by_session on sponsorships (checkout_session_id)
  where checkout_session_id is not null;
comment on table sponsorships is 'what a keeper made of each signed offer, and what it cost; written by keepers only';
comment on column sponsorships.address is 'network of the client, forgotten after two days';
comment on column sponsorships.reserved is 'lamports that the transaction can cost at most: fee and rent';
comment on column sponsorships.fee is 'network fee in lamports; once the transaction landed or failed on chain it is spent';
comment on column sponsorships.authority_rent is 'lamports for the wallet''s authority; out until authority_returned_at';
comment on column sponsorships.seen is 'how far the chain has the open transaction, for the page';
comment on column sponsorships.checked_at is 'when the accounts of the rent were last read';
comment on column sponsorships.lease_until is 'database time until which the keeper with this claim_id follows the transaction';

alter table payment_attempts
  alter column subscription_id drop not null,
  add column offer_id uuid references sponsorships,
  add constraint of_subscription_or_offer
    check (subscription_id is not null or offer_id is not null);
create index attempts_of_offers on payment_attempts (offer_id) where offer_id is not null;
comment on column payment_attempts.offer_id is 'the sponsored sign-up that makes the payment; it has a subscription once it is settled';
