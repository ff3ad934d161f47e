-- Tables of the browser pages: checkout sessions and offered transactions.

-- An offer of a plan to one customer of a merchant. The customer's link contains its id.
create table checkout_sessions (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  external_id text check (length(external_id) between 1 and 120),
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  discount_percent int check (discount_percent between 1 and 99),
  discount_amount int8 check (discount_amount > 0),
  discount_periods int check (discount_periods > 0),
  success_url text,
  cancel_url text,
  subscriber_wallet text,
  subscription_id uuid references subscriptions,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '24 hours',
  constraint completed_by_a_wallet check (subscription_id is null or subscriber_wallet is not null)
);
comment on column checkout_sessions.subscriber_wallet is 'the wallet whose transaction was sent; no other wallet can use the session';
comment on column checkout_sessions.subscription_id is 'the subscription registered in the session; null while it is open and after it expired';
create index checkout_sessions_by_app on checkout_sessions (app_id, id);

-- Every unsigned transaction that the service built for a wallet. The relay only sends a signed transaction that matches one of these.
create table offered_transactions (
  id uuid primary key default uuid_v7(),
  wallet text not null,
  blockhash text not null,
  message bytea not null,
  last_valid_block_height int8 not null,
  purpose text not null check (purpose in ('subscribe', 'cancel', 'resume', 'close', 'repair', 'publish', 'pullers', 'refund')),
  plan_id uuid not null references plans on delete cascade,
  subscription_pda text,
  checkout_session_id uuid references checkout_sessions on delete cascade,
  created_at timestamptz not null default now(),
  constraint subscription_named_unless_of_plan check ((purpose in ('publish', 'pullers')) = (subscription_pda is null))
);
comment on table offered_transactions is 'unsigned transactions offered to wallets for signing; deleted after ten minutes, when their blockhashes have expired';
comment on column offered_transactions.checkout_session_id is 'the session in which the wallet subscribes';
comment on column offered_transactions.message is 'the message that the wallet signs, byte for byte';
create index offered_transactions_by_wallet on offered_transactions (wallet, blockhash);
create index offered_transactions_by_age on offered_transactions (created_at);
