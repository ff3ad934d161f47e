-- The figures of an app read which subscriptions were past due at a time. Few payments tell: those that failed, and those that succeeded after a failure.
-- min_release: 0.1.0

create index payments_troubled on payments (app_id, occurred_at, subscription_id, status)
  where status = 'failed' or attempt > 1;
