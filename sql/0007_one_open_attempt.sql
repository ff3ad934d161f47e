-- One open attempt per on-chain subscription, whichever registration signed it: a second one could pull twice in one period. An attempt whose end no
-- history explains ends as unexplained, once its period is over.

alter table payment_attempts add column subscription_pda text;
update payment_attempts a set subscription_pda = s.subscription_pda from subscriptions s where s.id = a.subscription_id;
alter table payment_attempts alter column subscription_pda set not null;
comment on column payment_attempts.subscription_pda is 'the address that it pulls from; registrations of one address share it';

alter table payment_attempts drop constraint payment_attempts_state_check;
alter table payment_attempts add constraint payment_attempts_state_check
  check (state in ('open', 'landed', 'failed', 'expired', 'unexplained'));

drop index one_open_attempt_per_period;
create unique index one_open_attempt_per_address on payment_attempts (subscription_pda) where state = 'open';

drop index attempts_in_vain;
create index attempts_in_vain on payment_attempts (subscription_id, id) where state in ('failed', 'expired', 'unexplained');
create index attempts_unexplained on payment_attempts (resolved_at) where state = 'unexplained';
