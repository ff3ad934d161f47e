-- A cancellation of the subscriber that holds in the service before it is on chain, and an index for the analytics of sponsorships.
-- min_release: 0.1.0

alter table subscriptions
  drop constraint subscriptions_cancel_requested_by_check,
  add constraint subscriptions_cancel_requested_by_check
    check (cancel_requested_by in ('subscriber', 'subscriber_here', 'merchant')) not valid;
comment on column subscriptions.cancel_requested_by is 'subscriber_here: the wallet cancelled through the API, and its account on chain has not shown it yet';

create index sponsorships_by_plan on sponsorships (plan_id, created_at) where plan_id is not null;
