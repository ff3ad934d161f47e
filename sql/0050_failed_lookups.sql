-- Failed look-ups of an on-chain payment are counted apart from other failures of the keeper.
-- min_release: 0.1.0

alter table subscriptions add column failed_lookups int not null default 0;
alter table subscriptions add constraint failed_lookups_counted check (failed_lookups >= 0) not valid;
comment on column subscriptions.failed_lookups is 'look-ups that did not find every payment that the account counts; from eight on the keeper stops looking';
