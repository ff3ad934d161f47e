-- A checkout session may have a trial of its own.
-- No min_release: an older process would register its subscription without the trial, and charge it at once.

alter table checkout_sessions
  add column trial_hours int check (trial_hours between 1 and 8760),
  add constraint change_has_no_trial check (replaces is null or trial_hours is null);
comment on column checkout_sessions.trial_hours is 'free hours in place of those of the plan, once per wallet and app; null: those of the plan';
