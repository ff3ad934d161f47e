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
