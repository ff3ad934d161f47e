-- The record of a subscription and its account on chain end together.

alter table subscriptions
  add column charged_from timestamptz,
  add column refunded_through timestamptz;
comment on column subscriptions.charged_from is 'chain time of a resume or a registration inside an on-chain period: only the rest of that period is charged';
comment on column subscriptions.refunded_through is 'end of a paid period whose payment was refunded before the wallet resumed: that period gives no access';

alter table offered_transactions add column resumes boolean not null default false;
comment on column offered_transactions.resumes is 'the transaction resumes the cancelled account of an ended subscription, instead of opening an account';
create index offered_transactions_by_pda on offered_transactions (subscription_pda) where purpose = 'subscribe';

alter table subscriptions add column reinstated_at timestamptz check (reinstated_at is null or end_reason = 'forced');
comment on column subscriptions.reinstated_at is 'the merchant lifted its force-cancel: the wallet may register the same account again';

alter table checkout_sessions add column for_wallet text;
comment on column checkout_sessions.for_wallet is 'the only wallet that can subscribe in the session; null for any';

alter table offered_transactions
  alter column message drop not null,
  add column registered_at timestamptz;
comment on table offered_transactions is 'unsigned transactions offered to wallets for signing; deleted after ten minutes, offers to subscribe after 24 hours';
comment on column offered_transactions.message is 'the message that the wallet signs, byte for byte; null once its blockhash has expired';
comment on column offered_transactions.registered_at is 'a subscription at the address was registered since: the offer fits no other account';

alter table subscriptions add column unclaimed boolean not null default false;
comment on column subscriptions.unclaimed is 'a keeper registered it from the chain; the next registration by its wallet returns it, once';

alter table apps add column register_unclaimed boolean not null default false;
comment on column apps.register_unclaimed is 'a subscription on chain that the service did not offer is registered too';

create table unregistered_subscriptions (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  plan_id uuid not null references plans,
  subscription_pda text not null unique,
  subscriber_wallet text not null,
  created_at timestamptz not null default now()
);
comment on table unregistered_subscriptions is 'live accounts on chain of registered plans that no wallet has registered';
create index unregistered_by_app on unregistered_subscriptions (app_id, id);

alter table offered_transactions
  drop constraint offered_transactions_purpose_check,
  drop constraint subscription_named_unless_of_plan,
  alter column plan_id drop not null,
  add constraint offered_transactions_purpose_check check (purpose in
    ('subscribe', 'cancel', 'resume', 'close', 'repair', 'revoke', 'publish', 'pullers', 'refund')),
  add constraint subscription_named_unless_of_plan check
    ((purpose in ('publish', 'pullers', 'revoke')) = (subscription_pda is null)),
  add constraint plan_named_unless_of_wallet check ((purpose = 'revoke') = (plan_id is null));

alter table apps
  add column one_per_customer boolean not null default true,
  add column own_ids_by_subscriber boolean not null default true;
alter table apps alter column own_ids_by_subscriber set default false;
comment on column apps.one_per_customer is 'a customer (external_id) has one live subscription to plans of the app';
comment on column apps.own_ids_by_subscriber is 'a wallet may set external_id and metadata in its registration, where they are unverified';

alter table checkout_sessions add column allow_second boolean not null default false;
comment on column checkout_sessions.allow_second is 'the customer may have another live subscription';

alter table subscriptions
  add column own_ids_from text check (own_ids_from in ('checkout', 'merchant', 'subscriber')),
  add column duplicate_of uuid references subscriptions;
comment on column subscriptions.own_ids_from is 'who set external_id and metadata last; null without either';
comment on column subscriptions.duplicate_of is 'the live subscription that the same customer had when this one landed';
update subscriptions s set own_ids_from = case when exists (
    select from checkout_sessions c where c.subscription_id = s.id) then 'checkout' else 'subscriber' end
  where external_id is not null or metadata <> '{}';

alter table plans add column notice_hours int[] check (cardinality(notice_hours) between 1 and 3);
comment on column plans.notice_hours is 'hours before a payment at which it is announced, descending; null: once, a quarter of the period, at most 72';
alter table subscriptions add column announced_notices int not null default 1 check (announced_notices >= 0);
comment on column subscriptions.announced_notices is 'how many of the plan''s notices of announced_due were sent';
