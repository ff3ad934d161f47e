-- The trial that an offer to subscribe showed: the registration gives it, whatever the plan's trial is by then.
-- min_release: 0.1.0

alter table offered_transactions
  add column trial_hours int,
  add constraint offered_trial_hours check (trial_hours between 0 and 8760) not valid;
comment on column offered_transactions.trial_hours is 'free hours that the wallet was shown; 0: none; null: it showed neither, or is older than this column';
