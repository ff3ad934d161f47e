-- Plans, subscriptions, and the money: attempts (what we signed) and payments (what happened).

create table plans (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  name text not null check (length(name) between 1 and 120),
  plan_pda text not null,
  chain_plan_id numeric(20, 0) not null check (chain_plan_id >= 0),
  owner text not null,
  mint text not null,
  treasury text not null,
  puller text not null,
  amount int8 not null check (amount > 0),
  period_hours int not null check (period_hours between 1 and 8760),
  ends_at timestamptz,
  metadata_uri text not null default '',
  chain_created_at timestamptz,
  status text not null default 'pending' check (status in ('pending', 'active', 'sunset', 'ended')),
  observed_at timestamptz,
  observed_slot int8 not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint seen_on_chain_unless_pending check (status in ('pending', 'ended') or chain_created_at is not null)
);
comment on column plans.amount is 'USDC base units (6 decimals) per period';
comment on column plans.chain_created_at is 'created_at of the on-chain Plan account; with amount and period it tells a plan from one recreated at the same address';
comment on column plans.observed_slot is 'slot as of which the plan was first seen on chain: older state, which does not have it, is not believed';
create unique index one_live_plan_per_pda on plans (plan_pda) where status <> 'ended';
create index plans_by_app on plans (app_id, id);
create index plans_to_watch on plans (observed_at nulls first, id) where status <> 'ended';

create table subscriptions (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  subscription_pda text not null,
  subscriber_wallet text not null,
  status text not null default 'active' check (status in ('active', 'past_due', 'cancelled', 'expired')),
  amount int8 not null check (amount > 0),
  period_hours int not null check (period_hours between 1 and 8760),
  paid_through timestamptz,
  next_payment_due timestamptz,
  cancel_requested_at timestamptz,
  cancel_requested_by text check (cancel_requested_by in ('subscriber', 'merchant')),
  cancelled_at timestamptz,
  past_due_since timestamptz,
  failed_attempts int not null default 0 check (failed_attempts >= 0),
  delegation_revoked_at timestamptz,
  end_reason text,
  event_sequence int8 not null default 0,
  due_at timestamptz,
  notices int not null default 0,
  period_anchor timestamptz,
  observed_slot int8 not null default 0,
  period_pulled int8 not null default 0 check (period_pulled >= 0),
  setbacks int not null default 0 check (setbacks >= 0),
  lease_until timestamptz,
  claim_id uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint cancel_request_is_whole check ((cancel_requested_at is null) = (cancel_requested_by is null)),
  constraint cancelled_has_time check ((status = 'cancelled') = (cancelled_at is not null)),
  constraint past_due_has_start check ((status = 'past_due') = (past_due_since is not null)),
  constraint lease_is_whole check ((lease_until is null) = (claim_id is null))
) with (fillfactor = 70);
comment on column subscriptions.due_at is 'chain time at which the keeper must act next (collect, retry, finalize, expire); null when there is nothing left to do';
comment on column subscriptions.notices is 'counts what was heard of the subscription while a keeper may hold it: a keeper that finishes with another number than it began with looks again';
comment on column subscriptions.period_anchor is 'a period start of the on-chain account as first seen; others are whole periods away, or the address was closed and used again';
comment on column subscriptions.period_pulled is 'base units known to be pulled in the period that paid_through ends; more on chain is somebody else''s further pull';
comment on column subscriptions.observed_slot is 'slot of the newest chain state that was acted on; older state is not believed';
comment on column subscriptions.setbacks is 'failures in a row that are ours, for the backoff';
comment on column subscriptions.lease_until is 'database time until which the keeper with this claim_id owns the row';
create unique index one_live_registration_per_pda on subscriptions (subscription_pda) where status in ('active', 'past_due');
create index subscriptions_due on subscriptions (due_at, id) where due_at is not null;
create index subscriptions_set_back on subscriptions (setbacks) where setbacks > 0;
create index subscriptions_revoked on subscriptions (due_at, id) where delegation_revoked_at is not null and due_at is not null;
create index subscriptions_by_subscriber on subscriptions (subscriber_wallet, id);
create index subscriptions_by_pda on subscriptions (subscription_pda, id);

-- The keepers walk through the subscriptions that have a timer, in the order of due_at, and look each up on the chain. All of them share one place in
-- each walk; no row says when it was looked at, so that looking writes nothing to it.
create table sweeps (
  name text primary key,
  lap int8 not null default 0,
  starts_at timestamptz not null default now(),
  due_at timestamptz not null default 'epoch',
  id uuid not null default '00000000-0000-0000-0000-000000000000',
  taken int not null default 0,
  length int not null default 0
);
comment on column sweeps.starts_at is 'when this lap begins, or began';
comment on column sweeps.id is 'with due_at: the last subscription that was taken in this lap';
comment on column sweeps.taken is 'subscriptions taken in this lap';
comment on column sweeps.length is 'subscriptions taken in the lap before; tells whether this one is behind its time';
insert into sweeps (name) values ('near'), ('revoked'), ('all');

create table payment_attempts (
  id uuid primary key default uuid_v7(),
  subscription_id uuid not null references subscriptions,
  period_start timestamptz not null,
  claim_id uuid not null,
  signature text not null unique,
  transaction bytea not null,
  last_valid_block_height int8 not null,
  amount_gross int8 not null check (amount_gross > 0),
  platform_fee int8 not null check (platform_fee >= 0),
  amount_net int8 not null check (amount_net >= 0),
  state text not null default 'open' check (state in ('open', 'landed', 'failed', 'expired')),
  error text,
  created_at timestamptz not null default now(),
  resolved_at timestamptz,
  constraint attempt_adds_up check (amount_gross = platform_fee + amount_net),
  constraint resolved_has_time check ((state = 'open') = (resolved_at is null))
);
comment on table payment_attempts is 'every transaction we ever signed, committed here before it is first sent';
create unique index one_open_attempt_per_period on payment_attempts (subscription_id, period_start) where state = 'open';
create index payment_attempts_by_subscription on payment_attempts (subscription_id, id);

-- A merchant without a USDC account gets one with the first payment. Its rent, which the keeper pays, goes to whoever closes it.
create table paid_accounts (
  wallet text primary key,
  paid_at timestamptz not null default now()
);
comment on table paid_accounts is 'merchants'' wallets whose token account the keeper paid for, and when last';

create table payments (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  subscription_id uuid not null references subscriptions,
  subscription_pda text not null,
  subscriber_wallet text not null,
  status text not null check (status in ('succeeded', 'failed')),
  source text not null default 'keeper' check (source in ('keeper', 'foreign')),
  period_start timestamptz not null,
  period_end timestamptz not null,
  further boolean not null default false,
  amount_gross int8 not null check (amount_gross > 0),
  platform_fee int8 not null check (platform_fee >= 0),
  amount_net int8 not null check (amount_net >= 0),
  tx_signature text,
  failure_reason text,
  attempt int not null default 1 check (attempt > 0),
  occurred_at timestamptz not null,
  created_at timestamptz not null default now(),
  constraint payment_adds_up check (amount_gross = platform_fee + amount_net),
  constraint period_runs_forward check (period_end > period_start),
  constraint success_has_signature check (status = 'failed' or tx_signature is not null),
  constraint further_is_foreign check (not further or (status = 'succeeded' and source = 'foreign')),
  constraint failure_has_reason check ((status = 'failed') = (failure_reason is not null))
);
comment on table payments is 'what merchants see as transactions: one succeeded row per paid period, one failed row per failed attempt';
comment on column payments.further is 'somebody else pulled once more in a period that was paid already: it moved money, and pays for nothing new';
comment on column payments.occurred_at is 'the payment''s time: the block''s for a success, chain time of the attempt for a failure';
create unique index one_payment_per_period on payments (subscription_id, period_start) where status = 'succeeded' and not further;
create unique index one_payment_per_pull on payments (tx_signature, subscription_pda) where status = 'succeeded';
create index payments_by_app_time on payments (app_id, occurred_at, id);
create index payments_by_subscription on payments (subscription_id, status, occurred_at, id);
