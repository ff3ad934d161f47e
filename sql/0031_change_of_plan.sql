-- Change of plan: one subscription replaces another, and the unused part of the paid period is a credit of the new one.
-- No min_release: an older keeper would charge full prices to subscriptions that have a credit.

alter table subscriptions
  add column replaces uuid references subscriptions,
  add column replaced_by uuid references subscriptions,
  add column replaced_at timestamptz,
  add column starts_at timestamptz,
  add column credit bigint not null default 0 check (credit >= 0),
  add constraint replaced_is_whole check ((replaced_by is null) = (replaced_at is null));
comment on column subscriptions.replaces is 'the subscription that this one replaced in a change of plan';
comment on column subscriptions.replaced_at is 'chain time at which replaced_by takes over; access lasts until then and for the grace';
comment on column subscriptions.starts_at is 'the first payment is deferred to this chain time, the end of what was paid to the replaced subscription';
comment on column subscriptions.credit is 'base units of the replaced subscription that are not spent yet; the next payments spend them';

alter table payments
  add column credit_spent bigint not null default 0 check (credit_spent >= 0),
  add column covers_from timestamptz,
  add column amount_credited bigint check (amount_credited >= 0),
  drop constraint payments_amount_gross_check,
  drop constraint payments_source_check,
  drop constraint success_has_signature,
  add constraint payments_source_check check (source in ('keeper', 'foreign', 'credit')),
  add constraint paid_by_cash_or_credit check ((source = 'credit') = (amount_gross = 0) and amount_gross >= 0),
  add constraint credit_pays_something check (source <> 'credit' or (status = 'succeeded' and credit_spent > 0)),
  add constraint success_has_signature check (status = 'failed' or (tx_signature is null) = (source = 'credit'));
comment on column payments.source is 'keeper or foreign: who pulled; credit: the credit of a change of plan paid the whole amount, and nothing was pulled';
comment on column payments.credit_spent is 'credit of a change of plan that paid for the period beside amount_gross';
comment on column payments.covers_from is 'start of the time that it pays for, where that is later than period_start';
comment on column payments.amount_credited is 'the unused part, which a change of plan has made a credit; it is not refunded; null: no change took it';

alter table payment_attempts add column credit_spent bigint not null default 0 check (credit_spent >= 0);
comment on column payment_attempts.credit_spent is 'credit that pays for the period beside amount_gross; spent when the attempt lands';

alter table checkout_sessions
  add column replaces uuid references subscriptions,
  add column change_when text check (change_when in ('now', 'period_end')),
  add constraint session_changes_whole check ((replaces is null) = (change_when is null));
comment on column checkout_sessions.replaces is 'the subscription whose plan is changed in the session';

alter table offered_transactions
  add column replaces uuid references subscriptions,
  add column change_when text check (change_when in ('now', 'period_end')),
  add constraint offer_changes_whole check ((replaces is null) = (change_when is null));
create index offered_transactions_changing on offered_transactions (replaces) where replaces is not null;
comment on column offered_transactions.replaces is 'the subscription that the transaction cancels in favour of the one that it opens';

alter table apps add column plan_changes boolean not null default true;
comment on column apps.plan_changes is 'subscribers may change to another active plan of the app; otherwise only in a checkout session';
