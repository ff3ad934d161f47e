-- Limits how often a top-up makes a payment due again after it failed on chain, and finds the wallets that cost the keeper failed transactions.

alter table subscriptions
  add column chain_failure_period timestamptz,
  add column early_tries int not null default 0 check (early_tries >= 0),
  add constraint early_tries_follow_a_failure check (early_tries = 0 or chain_failure_period is not null);
comment on column subscriptions.chain_failure_period is 'start of the on-chain period whose payment last failed on chain for the subscriber''s reason; a payment of that period is simulated first and sent alone';
comment on column subscriptions.early_tries is 'payments of chain_failure_period that a top-up made due before their scheduled retry; at most two';

create index payments_failed_on_chain on payments (id) where status = 'failed' and tx_signature is not null;
