-- When a registration ended here, by the clock of the database. Its account may be live on chain after that.
-- min_release: 0.1.0
-- concurrently

alter table subscriptions
  add column if not exists stopped_at timestamptz,
  drop constraint if exists live_is_not_stopped,
  add constraint live_is_not_stopped
    check (stopped_at is null or status in ('cancelled', 'expired') or replaced_by is not null) not valid,
  drop constraint if exists subscriptions_check,
  drop constraint if exists reinstated_has_ended,
  add constraint reinstated_has_ended
    check (reinstated_at is null or status in ('cancelled', 'expired')) not valid;
create index concurrently if not exists subscriptions_reinstated on subscriptions (reinstated_at)
  where reinstated_at is not null;
comment on column subscriptions.stopped_at is 'when the registration ended or a change of plan replaced it, whichever was first, by the database''s clock; ended_at is chain time';
comment on column subscriptions.reinstated_at is 'the merchant lifted the end: the wallet may register the same account again, and a keeper registers it for a wallet that cannot sign in';
comment on table offered_transactions is 'unsigned transactions offered to wallets for signing; deleted after ten minutes, offers to subscribe and relayed offers to resume after 24 hours';
-- batches
update subscriptions set stopped_at = updated_at where id in (
  select id from subscriptions where id > $1 and stopped_at is null
    and (status in ('cancelled', 'expired') or replaced_by is not null)
  order by id limit 2000)
returning id;
