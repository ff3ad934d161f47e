-- The row of a daemon that stopped, so that the status knows the last one of each kind.
-- min_release: 0.1.0

alter table daemons add column stopped_at timestamptz;
comment on column daemons.stopped_at is 'when the daemon stopped in order; null while it runs, and after it was killed';
comment on table daemons is 'one row per daemon, written every few seconds; of those that ended, the newest of each kind stays, and killed ones for a day';
