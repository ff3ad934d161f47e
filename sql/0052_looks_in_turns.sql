-- Addresses that a keeper reads again are put off after each look, and replays take turns.
-- min_release: 0.1.0

alter table offered_transactions add column look_at timestamptz;
comment on column offered_transactions.look_at is 'time before which a keeper does not read the account at subscription_pda again for this offer; null: no keeper has read it';

alter table unregistered_subscriptions add column look_at timestamptz;
comment on column unregistered_subscriptions.look_at is 'time before which a keeper does not read the account again; null: no keeper has read it since it was listed';

alter table replays add column worked_at timestamptz;
comment on column replays.worked_at is 'when a batch of the run was last queued; the run that waited longest is next';
