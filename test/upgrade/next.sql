-- A further migration, made for the test: what a release may do to large tables.
-- min_release: 0.1.0
-- concurrently

alter table subscriptions add column if not exists kind_of_next text not null default 'plain';
alter table payments add column if not exists kind_of_next text not null default 'plain';
alter table payment_attempts add column if not exists kind_of_next text not null default 'plain';
alter table events add column if not exists kind_of_next text not null default 'plain';

create index concurrently if not exists subscriptions_of_next on subscriptions (app_id, kind_of_next);
create index concurrently if not exists payments_of_next on payments (app_id, kind_of_next);
create index concurrently if not exists attempts_of_next on payment_attempts (subscription_id, kind_of_next);
create index concurrently if not exists events_of_next on events (app_id, kind_of_next);

alter table subscriptions drop constraint if exists kind_of_next_is_known,
  add constraint kind_of_next_is_known check (kind_of_next in ('plain', 'other')) not valid;
alter table subscriptions validate constraint kind_of_next_is_known;
alter table payments drop constraint if exists kind_of_next_is_known,
  add constraint kind_of_next_is_known check (kind_of_next in ('plain', 'other')) not valid;
alter table payments validate constraint kind_of_next_is_known;
alter table payment_attempts drop constraint if exists kind_of_next_is_known,
  add constraint kind_of_next_is_known check (kind_of_next in ('plain', 'other')) not valid;
alter table payment_attempts validate constraint kind_of_next_is_known;
alter table events drop constraint if exists kind_of_next_is_known,
  add constraint kind_of_next_is_known check (kind_of_next in ('plain', 'other')) not valid;
alter table events validate constraint kind_of_next_is_known;

-- batches
update subscriptions set kind_of_next = 'other' where id in (
  select id from subscriptions where id > $1 and amount % 4 = 0 order by id limit 2000)
returning id;
-- batches
update payments set kind_of_next = 'other' where id in (
  select id from payments where id > $1 and amount_gross % 4 = 0 order by id limit 2000)
returning id;
-- batches
update payment_attempts set kind_of_next = 'other' where id in (
  select id from payment_attempts where id > $1 and amount_gross % 4 = 0 order by id limit 2000)
returning id;
-- batches
update events set kind_of_next = 'other' where id in (
  select id from events where id > $1 and type = 'cancel_finalized' order by id limit 2000)
returning id;
