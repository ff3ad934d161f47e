-- Plans, subscriptions, payment attempts (signed by a keeper), payments (their recorded results) and refunds.

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
  grace_hours int check (grace_hours between 0 and 72),
  retry_hours int[] check (cardinality(retry_hours) between 1 and 10),
  past_due_days int check (past_due_days between 1 and 90),
  trial_hours int check (trial_hours between 1 and 8760),
  chain_created_at timestamptz,
  status text not null default 'pending' check (status in ('pending', 'active', 'sunset', 'ended')),
  observed_at timestamptz,
  observed_slot int8 not null default 0,
  collection_blocked_reason text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint only_live_plans_are_blocked check (collection_blocked_reason is null or status in ('active', 'sunset')),
  constraint seen_on_chain_unless_pending check (status in ('pending', 'ended') or chain_created_at is not null)
);
comment on column plans.amount is 'USDC base units (6 decimals) per period';
comment on column plans.grace_hours is 'hours of access after paid_through while a payment is due; null: a tenth of the period, at most 72';
comment on column plans.retry_hours is 'hours after the first failure at which a payment is retried, ascending; null: 1, 6, 24, 72, 120';
comment on column plans.past_due_days is 'days from the first failure until an unpaid subscription expires; null: the operator''s setting';
comment on column plans.trial_hours is 'free hours of a new subscription, once per wallet and app; null: no trial';
comment on column plans.chain_created_at is 'created_at of the on-chain Plan account; with amount and period it distinguishes a plan from one recreated at the same address';
comment on column plans.collection_blocked_reason is 'the reason, not caused by a subscriber, why no payment of the plan can be collected; null while they can';
comment on column plans.observed_slot is 'slot at which the plan was first seen on chain; older state, which lacks the plan, is ignored';
create unique index one_live_plan_per_pda on plans (plan_pda) where status <> 'ended';
create index plans_by_app on plans (app_id, id);
create index plans_blocked on plans (collection_blocked_reason) where collection_blocked_reason is not null;
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
  trial_ends_at timestamptz,
  discount_percent int check (discount_percent between 1 and 99),
  discount_amount int8 check (discount_amount > 0),
  discount_periods int check (discount_periods >= 0),
  paused_at timestamptz,
  unpaused_at timestamptz,
  paid_through timestamptz,
  next_payment_due timestamptz,
  announced_due timestamptz,
  cancel_requested_at timestamptz,
  cancel_requested_by text check (cancel_requested_by in ('subscriber', 'merchant')),
  cancelled_at timestamptz,
  ended_at timestamptz,
  past_due_since timestamptz,
  failed_attempts int not null default 0 check (failed_attempts >= 0),
  delegation_revoked_at timestamptz,
  end_reason text,
  external_id text check (length(external_id) between 1 and 120),
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  event_sequence int8 not null default 0,
  due_at timestamptz,
  notices int not null default 0,
  period_anchor timestamptz,
  chain_init_id int8,
  chain_period_start timestamptz,
  observed_slot int8 not null default 0,
  period_pulled int8 not null default 0 check (period_pulled >= 0),
  setbacks int not null default 0 check (setbacks >= 0),
  failed_packs int not null default 0 check (failed_packs >= 0),
  lease_until timestamptz,
  claim_id uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint discount_is_whole check (num_nonnulls(discount_percent, discount_amount) <= 1 and (discount_periods is null or num_nonnulls(discount_percent, discount_amount) = 1)),
  constraint discount_leaves_something check (discount_amount < amount),
  constraint paused_is_active check (paused_at is null or status <> 'past_due'),
  constraint cancel_request_is_whole check ((cancel_requested_at is null) = (cancel_requested_by is null)),
  constraint cancelled_has_time check ((status = 'cancelled') = (cancelled_at is not null)),
  constraint ended_has_time check ((status in ('cancelled', 'expired')) = (ended_at is not null)),
  constraint past_due_has_start check ((status = 'past_due') = (past_due_since is not null)),
  constraint lease_is_whole check ((lease_until is null) = (claim_id is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on column subscriptions.amount is 'the plan''s amount: the maximum per period, enforced on chain';
comment on column subscriptions.trial_ends_at is 'no payment is collected before this chain time; null without a trial';
comment on column subscriptions.discount_periods is 'remaining payments that the discount reduces; null: all, 0: it is used up';
comment on column subscriptions.paused_at is 'no payment is collected since this time; null unless paused';
comment on column subscriptions.unpaused_at is 'chain time at which the last pause ended; only the rest of the period at that time is charged';
comment on column subscriptions.external_id is 'the merchant''s own id of the customer; several subscriptions may share it';
comment on column subscriptions.ended_at is 'chain time at which it was cancelled or expired; no later write changes it';
comment on column subscriptions.due_at is 'chain time at which the keeper must act next (announce, collect, retry, finalize, expire); null: no action left';
comment on column subscriptions.announced_due is 'the next_payment_due of the last renewal_upcoming event, so that each due time is announced once';
comment on column subscriptions.notices is 'number of notices about the subscription; if it changed during a claim, the subscription is due again immediately';
comment on column subscriptions.period_anchor is 'a period start of the on-chain account when first seen; a later start that is not whole periods away means that the account was closed and recreated';
comment on column subscriptions.chain_init_id is 'init_id of the account at registration; with chain_period_start it distinguishes the account from a later one at the same address';
comment on column subscriptions.chain_period_start is 'period start of the account at registration; other periods of the same account start whole periods away';
comment on column subscriptions.period_pulled is 'base units known to be pulled in the period that paid_through ends; more on chain means a further pull by another puller';
comment on column subscriptions.observed_slot is 'slot of the newest processed chain state; older state is ignored';
comment on column subscriptions.setbacks is 'consecutive failures that the subscriber did not cause, for the backoff';
comment on column subscriptions.failed_packs is 'consecutive transactions that failed because of another payment in them; from two on the payment is sent alone';
comment on column subscriptions.lease_until is 'database time until which the keeper with this claim_id owns the row';
create unique index one_live_registration_per_pda on subscriptions (subscription_pda) where status in ('active', 'past_due');
create unique index one_trial_per_wallet on subscriptions (app_id, subscriber_wallet) where trial_ends_at is not null;
create index subscriptions_due on subscriptions (due_at, id) where due_at is not null;
create index subscriptions_set_back on subscriptions (setbacks) where setbacks > 0;
-- Lists are ordered by id, which is ordered by time: one index for each column that a list can be filtered by first.
create index subscriptions_by_app on subscriptions (app_id, id);
create index subscriptions_by_app_end on subscriptions (app_id, ended_at);
create index subscriptions_by_plan on subscriptions (plan_id, id);
create index subscriptions_by_subscriber on subscriptions (subscriber_wallet, id);
create index subscriptions_by_external_id on subscriptions (app_id, external_id, id) where external_id is not null;
-- Finds the subscription of a customer with the longest access. Only has paid rows and trials, because any wallet may register with any external id.
create index subscriptions_by_coverage on subscriptions
  (app_id, external_id, (case when status in ('active', 'past_due') then greatest(paid_through, trial_ends_at) else paid_through end), id)
  where external_id is not null and (case when status in ('active', 'past_due') then greatest(paid_through, trial_ends_at) else paid_through end) is not null;
create index subscriptions_by_pda on subscriptions (subscription_pda, id);

-- The sweep reads each subscription with a due_at from the chain, in the order of due_at. All keepers share one position. The time of the read is not
-- stored per subscription, so that the sweep does not write to its row.
create table sweeps (
  name text primary key,
  lap int8 not null default 0,
  starts_at timestamptz not null default now(),
  due_at timestamptz not null default 'epoch',
  id uuid not null default '00000000-0000-0000-0000-000000000000',
  taken int not null default 0,
  length int not null default 0
);
comment on column sweeps.starts_at is 'start of this lap, in the past or future';
comment on column sweeps.id is 'with due_at: the last subscription read in this lap';
comment on column sweeps.taken is 'subscriptions read in this lap';
comment on column sweeps.length is 'subscriptions read in the previous lap, to detect that this lap is late';
insert into sweeps (name) values ('all');

create table transactions (
  id uuid primary key default uuid_v7(),
  signature bytea not null unique check (length(signature) = 64),
  bytes bytea,
  last_valid_block_height int8 not null,
  state text not null default 'open' check (state in ('open', 'landed', 'failed', 'expired')),
  created_at timestamptz not null default now(),
  constraint open_has_bytes check ((state = 'open') = (bytes is not null))
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
comment on table transactions is 'every transaction signed by a keeper, committed before it is first sent; it contains one or more payment attempts';
comment on column transactions.bytes is 'the signed transaction as it is sent; null once its outcome is known';

create table payment_attempts (
  id uuid primary key default uuid_v7(),
  subscription_id uuid not null references subscriptions,
  transaction_id uuid not null references transactions,
  position int not null default 0 check (position >= 0),
  period_start timestamptz not null,
  claim_id uuid not null,
  amount_gross int8 not null check (amount_gross > 0),
  platform_fee int8 not null check (platform_fee >= 0),
  amount_net int8 not null check (amount_net >= 0),
  fee_owed int8 not null default 0 check (fee_owed >= 0),
  state text not null default 'open' check (state in ('open', 'landed', 'failed', 'expired')),
  error text,
  created_at timestamptz not null default now(),
  resolved_at timestamptz,
  constraint one_attempt_per_position unique (transaction_id, position),
  constraint attempt_adds_up check (amount_gross = platform_fee + amount_net),
  constraint resolved_has_time check ((state = 'open') = (resolved_at is null))
) with (autovacuum_vacuum_scale_factor = 0.02);
comment on table payment_attempts is 'every payment signed by a keeper, with its transaction';
comment on column payment_attempts.fee_owed is 'the omitted fee, because no treasury of the plan could receive it';
comment on column payment_attempts.position is 'index of the payment in its transaction, from 0';
create unique index one_open_attempt_per_period on payment_attempts (subscription_id, period_start) where state = 'open';
create index attempts_in_vain on payment_attempts (subscription_id, id) where state in ('failed', 'expired');

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
  amount_refunded int8 not null default 0,
  fee_owed int8 not null default 0 check (fee_owed >= 0),
  tx_signature text,
  failure_reason text,
  attempt int not null default 1 check (attempt > 0),
  occurred_at timestamptz not null,
  created_at timestamptz not null default now(),
  constraint refunded_within_net check (amount_refunded between 0 and amount_net),
  constraint payment_adds_up check (amount_gross = platform_fee + amount_net),
  constraint period_runs_forward check (period_end > period_start),
  constraint success_has_signature check (status = 'failed' or tx_signature is not null),
  constraint further_is_foreign check (not further or (status = 'succeeded' and source = 'foreign')),
  constraint failure_has_reason check ((status = 'failed') = (failure_reason is not null))
);
comment on table payments is 'the transactions of the API: one succeeded row per paid period, one failed row per failed attempt';
comment on column payments.further is 'a further pull by another puller in a paid period: it moved USDC but does not pay for another period';
comment on column payments.fee_owed is 'the fee that was not collected because no treasury of the plan could receive it; not included in amount_gross';
comment on column payments.amount_refunded is 'the sum of its finalized refunds';
comment on column payments.occurred_at is 'block time of a success, chain time of the attempt for a failure';
create unique index one_payment_per_period on payments (subscription_id, period_start) where status = 'succeeded' and not further;
-- Indexes hashes, because an index of the texts would be the largest of the table (docs/postgres-notes.md, Writing).
create unique index one_payment_per_pull on payments ((md5(tx_signature)::uuid), (md5(subscription_pda)::uuid)) where status = 'succeeded';
-- Postgres keeps no statistics of the expression of a partial index. Without these it expects one payment in 200 per signature, and scans the table.
create statistics payment_signatures on (md5(tx_signature)::uuid) from payments;
create index payments_by_app_time on payments (app_id, occurred_at, id);
create index payments_by_subscription on payments (subscription_id, occurred_at, id);

-- Refunds: transfers by the merchant's wallet, found on chain by the reference among their accounts.
create table refunds (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  payment_id uuid not null references payments,
  subscription_id uuid not null references subscriptions,
  amount int8 not null check (amount > 0),
  reference text not null unique,
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'expired')),
  tx_signature text,
  occurred_at timestamptz,
  look_at timestamptz default now(),
  created_at timestamptz not null default now(),
  constraint succeeded_is_whole check ((status = 'succeeded') = (tx_signature is not null) and (status = 'succeeded') = (occurred_at is not null))
);
comment on column refunds.reference is 'a random address among the transfer''s accounts, by which the transaction is found';
comment on column refunds.look_at is 'time of the next look-up of the transfer by a keeper; null once it is recorded, or a day after the request of an expired one';
comment on column refunds.occurred_at is 'block time of the transfer';
create index refunds_by_payment on refunds (payment_id, id);
create index refunds_to_look_for on refunds (look_at, id) where look_at is not null;
create index refunds_by_app_time on refunds (app_id, occurred_at) where status = 'succeeded';
