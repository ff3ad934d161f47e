-- Plans, checkout sessions and subscriptions, each with its account on chain.

create table plans (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  name text not null check (length(name) between 1 and 120),
  description text check (length(description) between 1 and 2000),
  status text not null default 'pending' check (status in ('pending', 'active', 'sunset', 'ended')),
  -- The account on chain.
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
  -- What the merchant sets here.
  trial_hours int check (trial_hours between 1 and 8760),
  grace_hours int check (grace_hours between 0 and 72),
  retry_hours int[] check (cardinality(retry_hours) between 1 and 10),
  past_due_days int check (past_due_days between 1 and 90),
  notice_hours int[] check (cardinality(notice_hours) between 1 and 3),
  -- What keepers have seen.
  observed_slot int8 not null default 0,
  observed_at timestamptz,
  look_at timestamptz,
  collection_blocked_reason text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint only_live_plans_are_blocked
    check (collection_blocked_reason is null or status in ('active', 'sunset')),
  constraint seen_on_chain_unless_pending
    check (status in ('pending', 'ended') or chain_created_at is not null)
);
comment on table plans is 'plans of an app; a draft (pending) until its account is seen on chain';
comment on column plans.description is 'shown on the plan''s page instead of the app''s description';
comment on column plans.amount is 'USDC base units (6 decimals) per period';
comment on column plans.chain_created_at is 'created_at of the on-chain Plan account; with amount and period it distinguishes a plan from one recreated at the same address';
comment on column plans.trial_hours is 'free hours of a new subscription, once per wallet and app; null: no trial';
comment on column plans.grace_hours is 'hours of access after paid_through while a payment is due; null: a tenth of the period, at most 72';
comment on column plans.retry_hours is 'hours after the first failure at which a payment is retried, ascending; null: 1, 6, 24, 72, 120';
comment on column plans.past_due_days is 'days from the first failure until an unpaid subscription expires; null: the operator''s setting';
comment on column plans.notice_hours is 'hours before a payment at which it is announced, descending; null: once, a quarter of the period, at most 72';
comment on column plans.observed_slot is 'slot at which the plan was first seen on chain; older state, which lacks the plan, is ignored';
comment on column plans.look_at is 'time before which a keeper does not read the plan again, because its account could not be read; null: observed_at decides';
comment on column plans.collection_blocked_reason is 'the reason, not caused by a subscriber, why no payment of the plan can be collected; null while they can';
create unique index one_live_plan_per_pda on plans (plan_pda) where status <> 'ended';
create index plans_by_app on plans (app_id, id);
create index plans_pending on plans (app_id) where status = 'pending';
create index plans_blocked on plans (collection_blocked_reason)
  where collection_blocked_reason is not null;
create index plans_to_watch on plans (observed_at nulls first, id) where status <> 'ended';

-- A customer of an app: who has the external id that a checkout session or the merchant set, else
-- the wallet. No renewal writes a customer.
create table customers (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  external_id text check (length(external_id) between 1 and 120),
  wallet text,
  name text check (length(name) <= 120),
  email text check (length(email) <= 254),
  email_confirmed_at timestamptz,
  notes text check (length(notes) <= 5000),
  created_at timestamptz not null default now(),
  constraint customer_has_one_key check (num_nonnulls(external_id, wallet) <= 1)
);
comment on table customers is 'the customers of each app, to whom subscriptions belong';
comment on column customers.external_id is 'the merchant''s own id; an id that a subscriber set makes no customer, because anybody may set it';
comment on column customers.wallet is 'the customer without an external id; neither: erased';
create unique index customers_by_external_id on customers (app_id, external_id);
create unique index customers_by_wallet on customers (app_id, wallet);
create index customers_by_app on customers (app_id, id);

create table subscriptions (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  subscription_pda text not null,
  subscriber_wallet text not null,
  status text not null default 'active'
    check (status in ('active', 'past_due', 'cancelled', 'expired')),
  -- The merchant's customer.
  customer_id uuid not null references customers,
  external_id text check (length(external_id) between 1 and 120),
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  own_ids_from text check (own_ids_from in ('checkout', 'merchant', 'subscriber')),
  duplicate_of uuid references subscriptions,
  -- Terms.
  amount int8 not null check (amount > 0),
  period_hours int not null check (period_hours between 1 and 8760),
  trial_ends_at timestamptz,
  discount_percent int check (discount_percent between 1 and 99),
  discount_amount int8 check (discount_amount > 0),
  discount_periods int check (discount_periods > 0),
  discount_id uuid,
  paused_at timestamptz,
  billed_from timestamptz,
  -- Change of plan.
  replaces uuid references subscriptions,
  replaced_by uuid references subscriptions,
  replaced_at timestamptz,
  starts_at timestamptz,
  -- Payment.
  resumed_at timestamptz,
  period_pulled int8 not null default 0 check (period_pulled >= 0),
  next_payment_due timestamptz,
  announced_due timestamptz,
  announced_notices int not null default 1 check (announced_notices >= 0),
  past_due_since timestamptz,
  failed_attempts int not null default 0 check (failed_attempts >= 0),
  chain_failure_period timestamptz,
  early_tries int not null default 0 check (early_tries >= 0),
  -- End.
  cancel_requested_at timestamptz,
  cancel_requested_by text
    check (cancel_requested_by in ('subscriber', 'subscriber_here', 'merchant')),
  cancelled_at timestamptz,
  delegation_revoked_at timestamptz,
  ended_at timestamptz,
  end_reason text,
  stopped_at timestamptz,
  reinstated_at timestamptz,
  pullable boolean not null default true,
  pulled_through timestamptz,
  -- The account on chain.
  period_anchor timestamptz,
  chain_init_id int8,
  chain_period_start timestamptz,
  unclaimed boolean not null default false,
  without_offer boolean not null default false,
  event_sequence int8 not null default 0,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint discount_is_whole check (num_nonnulls(discount_percent, discount_amount) <= 1
    and (discount_periods is null or discount_id is not null)
    and num_nonnulls(discount_percent, discount_amount) = num_nonnulls(discount_id)),
  constraint discount_leaves_something check (discount_amount < amount),
  constraint paused_is_active check (paused_at is null or status <> 'past_due'),
  constraint replaced_is_whole check ((replaced_by is null) = (replaced_at is null)),
  constraint past_due_has_start check ((status = 'past_due') = (past_due_since is not null)),
  constraint early_tries_follow_a_failure
    check (early_tries = 0 or chain_failure_period is not null),
  constraint cancel_request_is_whole
    check ((cancel_requested_at is null) = (cancel_requested_by is null)),
  constraint cancelled_has_time check ((status = 'cancelled') = (cancelled_at is not null)),
  constraint ended_has_time check ((status in ('cancelled', 'expired')) = (ended_at is not null)),
  constraint live_is_not_stopped check (stopped_at is null or status in ('cancelled', 'expired')
    or replaced_by is not null),
  constraint reinstated_has_ended
    check (reinstated_at is null or status in ('cancelled', 'expired'))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table subscriptions is 'registrations: each has a plan, the wallet that pays and its account on chain; an account that is opened or resumed after the end has another row';
comment on column subscriptions.customer_id is 'follows external_id, own_ids_from and subscriber_wallet, by a trigger';
comment on column subscriptions.external_id is 'the merchant''s own id of the customer; several subscriptions may share it';
comment on column subscriptions.own_ids_from is 'who set external_id and metadata last; null without either';
comment on column subscriptions.duplicate_of is 'the live subscription that the same customer had when this one landed';
comment on column subscriptions.amount is 'the plan''s amount: the maximum per period, enforced on chain';
comment on column subscriptions.trial_ends_at is 'no payment is collected before this chain time; null without a trial';
comment on column subscriptions.discount_periods is 'how many invoices the discount reduces; null: all. Those that are paid and name its id have used it';
comment on column subscriptions.discount_id is 'new whenever a discount is set';
comment on column subscriptions.paused_at is 'no payment is collected since this time; null unless paused';
comment on column subscriptions.billed_from is 'latest chain time of a registration or resume inside a period, of the end of a pause, or of a late first try: the period that contains it is charged from then on';
comment on column subscriptions.replaces is 'the subscription that this one replaced in a change of plan';
comment on column subscriptions.replaced_at is 'chain time at which replaced_by takes over; access lasts until then and for the grace';
comment on column subscriptions.starts_at is 'the first payment is deferred to this chain time, the end of what was paid to the replaced subscription';
comment on column subscriptions.resumed_at is 'chain time at which a keeper last saw the wallet''s resume, else that of the registration';
comment on column subscriptions.period_pulled is 'base units known to be pulled in the period that paid_through ends; more on chain means a further pull';
comment on column subscriptions.announced_due is 'the next_payment_due of the last renewal_upcoming event, so that each due time is announced once';
comment on column subscriptions.announced_notices is 'how many of the plan''s notices of announced_due were sent';
comment on column subscriptions.chain_failure_period is 'start of the on-chain period whose payment last failed on chain for the subscriber''s reason; a payment of that period is simulated first and sent alone';
comment on column subscriptions.early_tries is 'payments of chain_failure_period that a top-up made due before their scheduled retry; at most two';
comment on column subscriptions.cancel_requested_by is 'subscriber_here: the wallet cancelled through the API, and its account on chain has not shown it yet';
comment on column subscriptions.ended_at is 'chain time at which it was cancelled or expired; no later write changes it';
comment on column subscriptions.stopped_at is 'when the registration ended or a change of plan replaced it, whichever was first, by the database''s clock; of one that was replaced after its end: when it was replaced; ended_at is chain time';
comment on column subscriptions.reinstated_at is 'the merchant lifted the end: the wallet may register the same account again, and a keeper registers it for a wallet that cannot sign in';
comment on column subscriptions.pullable is 'false once the account of an ended subscription is gone, expired or registered anew: nothing can be pulled from it for this row';
comment on column subscriptions.pulled_through is 'end of the last period in which another puller than a keeper pulled after the end; null: no keeper has read the account since the end. It gives no access';
comment on column subscriptions.period_anchor is 'a period start of the on-chain account when first seen; a later start that is not whole periods away means that the account was closed and recreated';
comment on column subscriptions.chain_init_id is 'init_id of the account at registration; with chain_period_start it distinguishes the account from a later one at the same address';
comment on column subscriptions.chain_period_start is 'period start of the account at registration; other periods of the same account start whole periods away';
comment on column subscriptions.unclaimed is 'a keeper registered it from the chain; the next registration by its wallet returns it, once';
comment on column subscriptions.without_offer is 'a keeper registered it, and no offer of the service fitted: until an attempt is committed, the registration by its wallet sets the terms of its checkout session';
create unique index one_live_registration_per_pda on subscriptions (subscription_pda)
  where status in ('active', 'past_due');
create unique index one_trial_per_wallet on subscriptions (app_id, subscriber_wallet)
  where trial_ends_at is not null;
create index subscriptions_ended_pullable on subscriptions (id)
  where pullable and status in ('cancelled', 'expired');
create index subscriptions_reinstated on subscriptions (reinstated_at)
  where reinstated_at is not null;
create index subscriptions_by_pda on subscriptions (subscription_pda, id);
-- Lists are ordered by id, which is ordered by time: one index for each column that a list can be
-- filtered by first.
create index subscriptions_by_app on subscriptions (app_id, id);
create index subscriptions_by_app_end on subscriptions (app_id, ended_at);
create index subscriptions_past_due on subscriptions (app_id, id) where status = 'past_due';
create index subscriptions_by_plan on subscriptions (plan_id, id);
create index subscriptions_by_subscriber on subscriptions (subscriber_wallet, id);
create index subscriptions_by_customer on subscriptions (customer_id, id);
create index subscriptions_by_external_id on subscriptions (app_id, external_id, id)
  where external_id is not null;
-- With subscription_work_by_coverage, finds the subscription of a customer with the longest access.
-- Both have only paid rows and trials, because any wallet may register with any external id.
create index subscriptions_by_trial on subscriptions (app_id, external_id, trial_ends_at, id)
  where external_id is not null and trial_ends_at is not null and status in ('active', 'past_due');
-- The search box of the dashboard: the start of an external id.
create index subscriptions_by_external_prefix
  on subscriptions (app_id, external_id text_pattern_ops, id) where external_id is not null;

-- What is written with every claim and every payment. Apart from subscriptions, so that neither
-- writes any of its indexes (docs/postgres-notes.md, Writing). Who locks both rows locks that of
-- subscriptions first.
create table subscription_work (
  subscription_id uuid primary key references subscriptions,
  app_id uuid not null,
  external_id text,
  paid_through timestamptz,
  due_at timestamptz,
  notices int not null default 0,
  observed_slot int8 not null default 0,
  setbacks int not null default 0 check (setbacks >= 0),
  failed_packs int not null default 0 check (failed_packs >= 0),
  failed_lookups int not null default 0
    constraint failed_lookups_counted check (failed_lookups >= 0),
  lease_until timestamptz,
  claim_id uuid,
  constraint lease_is_whole check ((lease_until is null) = (claim_id is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
comment on table subscription_work is 'the keeper''s work on each subscription: when it is due, who holds it, and how far it is paid';
comment on column subscription_work.external_id is 'that of the subscription, kept by a trigger';
comment on column subscription_work.paid_through is 'end of the last paid period; null before the first payment';
comment on column subscription_work.due_at is 'chain time at which the keeper must act next (announce, collect, retry, finalize, expire); null: no action left';
comment on column subscription_work.notices is 'number of notices about the subscription; if it changed during a claim, the subscription is due again immediately';
comment on column subscription_work.observed_slot is 'slot of the newest processed chain state; older state is ignored';
comment on column subscription_work.setbacks is 'consecutive failures that the subscriber did not cause, for the backoff';
comment on column subscription_work.failed_packs is 'consecutive transactions that failed because of another payment in them; from two on the payment is sent alone';
comment on column subscription_work.failed_lookups is 'look-ups that did not find every payment that the account counts; from eight on the keeper stops looking';
comment on column subscription_work.lease_until is 'database time until which the keeper with this claim_id owns the row';
create index subscription_work_due on subscription_work (due_at, subscription_id)
  where due_at is not null;
create index subscription_work_set_back on subscription_work (setbacks) where setbacks > 0;
create index subscription_work_by_coverage
  on subscription_work (app_id, external_id, paid_through, subscription_id)
  where external_id is not null and paid_through is not null;

-- The search box of the dashboard: a part of a wallet.
create table searched_wallets (
  wallet text primary key
);
comment on table searched_wallets is 'the wallet of every subscription, once';
create function grams(text text) returns text[] language sql immutable parallel safe strict as $$
  select array_agg(distinct substr(lower(text), place, 3))
  from generate_series(1, greatest(length(text) - 2, 1)) as place
$$;
comment on function grams(text) is 'every three consecutive characters in lower case, by which a part of a text is found';
create index searched_wallets_by_part on searched_wallets using gin (grams(wallet));

-- The customer with this external id, else with this wallet. Makes the customer where there is none.
create function customer_of(app uuid, external text, payer text) returns uuid language plpgsql as $$
declare
  found uuid;
begin
  loop
    insert into customers (app_id, external_id, wallet)
      values (app, external, case when external is null then payer end)
      on conflict do nothing returning id into found;
    if found is null and external is not null then
      select id into found from customers where app_id = app and external_id = external
        for key share;
    elsif found is null then
      select id into found from customers where app_id = app and wallet = payer for key share;
    end if;
    -- Null where the customer got another id meanwhile.
    exit when found is not null;
  end loop;
  return found;
end
$$;

-- The customer of a new subscription, or of one whose external id has changed. Where nobody has the
-- new id and the customer has no other subscription, the customer gets the id. Otherwise the
-- subscription moves to the customer with the id, or without an id to that of the wallet.
create function set_customer() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  external text := case when new.own_ids_from in ('checkout', 'merchant') then new.external_id end;
begin
  if tg_op = 'UPDATE' and external is not null then
    perform from customers where id = old.customer_id for update;
    if not exists (
      select from subscriptions where customer_id = old.customer_id and id <> new.id) then
      begin
        update customers set external_id = external, wallet = null where id = old.customer_id;
        return new;
      exception when unique_violation then null;
      end;
    end if;
  end if;
  new.customer_id := customer_of(new.app_id, external, new.subscriber_wallet);
  return new;
end
$$;
create trigger subscription_gets_customer before insert on subscriptions
  for each row when (new.customer_id is null) execute function set_customer();
create trigger subscription_changes_customer
  before update of external_id, own_ids_from on subscriptions
  for each row when (new.external_id is distinct from old.external_id
    or new.own_ids_from is distinct from old.own_ids_from)
  execute function set_customer();

create function copy_external_id() returns trigger language plpgsql as $$
begin
  update subscription_work set external_id = new.external_id where subscription_id = new.id;
  return null;
end
$$;
create trigger external_id_is_copied after update of external_id on subscriptions
  for each row when (new.external_id is distinct from old.external_id)
  execute function copy_external_id();

-- The sweep reads each subscription with a due_at from the chain, in the order of due_at. All
-- keepers share one position. The time of the read is not stored per subscription, so that the
-- sweep does not write to its row.
create table sweeps (
  name text primary key,
  lap int8 not null default 0,
  starts_at timestamptz not null default now(),
  due_at timestamptz not null default 'epoch',
  id uuid not null default '00000000-0000-0000-0000-000000000000',
  taken int not null default 0,
  length int not null default 0
);
comment on table sweeps is 'the position of the sweep, which reads all subscriptions from the chain, lap after lap';
comment on column sweeps.starts_at is 'start of this lap, in the past or future';
comment on column sweeps.id is 'with due_at: the last subscription read in this lap';
comment on column sweeps.taken is 'subscriptions read in this lap';
comment on column sweeps.length is 'subscriptions read in the previous lap, to detect that this lap is late';
insert into sweeps (name) values ('all');

create table unregistered_subscriptions (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  subscription_pda text not null unique,
  subscriber_wallet text not null,
  look_at timestamptz,
  created_at timestamptz not null default now()
);
comment on table unregistered_subscriptions is 'live accounts on chain of registered plans that no wallet has registered';
comment on column unregistered_subscriptions.look_at is 'time before which a keeper does not read the account again; null: no keeper has read it since it was listed';
create index unregistered_by_app on unregistered_subscriptions (app_id, id);

create table checkout_sessions (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  -- The customer.
  external_id text check (length(external_id) between 1 and 120),
  metadata jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
  for_wallet text,
  allow_second boolean not null default false,
  -- Terms.
  trial_hours int check (trial_hours between 1 and 8760),
  discount_percent int check (discount_percent between 1 and 99),
  discount_amount int8 check (discount_amount > 0),
  discount_periods int check (discount_periods > 0),
  replaces uuid references subscriptions,
  change_when text check (change_when in ('now', 'period_end')),
  success_url text,
  cancel_url text,
  -- The outcome.
  subscriber_wallet text,
  subscription_id uuid references subscriptions,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null default now() + interval '24 hours',
  constraint change_has_no_trial check (replaces is null or trial_hours is null),
  constraint session_changes_whole check ((replaces is null) = (change_when is null)),
  constraint completed_by_a_wallet check (subscription_id is null or subscriber_wallet is not null)
);
comment on table checkout_sessions is 'offers of a plan to one customer of a merchant; the customer''s link contains the id';
comment on column checkout_sessions.for_wallet is 'the only wallet that can subscribe in the session; null for any';
comment on column checkout_sessions.allow_second is 'the customer may have another live subscription';
comment on column checkout_sessions.trial_hours is 'free hours in place of those of the plan, once per wallet and app; null: those of the plan';
comment on column checkout_sessions.replaces is 'the subscription whose plan is changed in the session';
comment on column checkout_sessions.subscriber_wallet is 'the wallet whose transaction was sent; no other wallet can use the session';
comment on column checkout_sessions.subscription_id is 'the subscription registered in the session; null while it is open and after it expired';
create index checkout_sessions_by_app on checkout_sessions (app_id, id);
-- Open sessions are counted per merchant, and ended ones are deleted after 30 days.
create index checkout_sessions_open on checkout_sessions (app_id, expires_at)
  where subscription_id is null;
create index checkout_sessions_by_expiry on checkout_sessions (expires_at);
