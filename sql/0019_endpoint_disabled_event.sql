-- An event that is only listed: no endpoint gets it. The wider conditions hold for every earlier row, so they are not checked again.
alter table events
  drop constraint events_type_check,
  drop constraint of_subscription_or_plan;
alter table events
  add constraint events_type_check check (type in ('subscription_created', 'payment_success', 'payment_failed', 'cancel_requested',
    'cancel_finalized', 'cancel_forced', 'delegation_revoked', 'subscription_resumed', 'renewal_upcoming', 'plan_blocked',
    'subscription_paused', 'subscription_unpaused', 'refund_recorded', 'endpoint_disabled')) not valid,
  add constraint of_subscription_or_plan check ((type in ('plan_blocked', 'endpoint_disabled')) = (subscription_id is null)
    and (subscription_id is null) = (sequence is null)) not valid;
create or replace function takes_event(extra_events text[], type text) returns boolean
language sql immutable parallel safe
as $$
  select type <> 'endpoint_disabled' and (type = any(extra_events)
    or type not in ('renewal_upcoming', 'plan_blocked', 'subscription_paused', 'subscription_unpaused', 'refund_recorded'))
$$;
