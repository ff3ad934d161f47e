// Migrations made for tests: the forms in which later releases change tables.
import type { Migration } from '../../../src/db/postgres/migration-files.ts';

/** Migrations, each applied after the ones above it. All tables that they name have rows. */
const texts: Readonly<Record<string, string>> = {
  tables: `
create table beans (
  id uuid primary key default uuid_v7(),
  app_id uuid not null references apps,
  kind text not null default 'arabica' constraint known_kind check (kind in ('arabica', 'robusta')),
  origin text not null
);
create table cups (
  id uuid primary key default uuid_v7(),
  bean_id uuid not null references beans on delete cascade,
  state text not null default 'full' check (state in ('full', 'empty')),
  emptied_at timestamptz,
  constraint emptied_has_time check ((state = 'full') = (emptied_at is null))
);
create index cups_by_bean on cups (bean_id, state);
create unlogged table orders (id uuid primary key, cup_id uuid references cups);
insert into beans (app_id, origin) select id, 'Peru' from apps;
insert into cups (bean_id) select id from beans;
insert into orders (id, cup_id) select id, id from cups;`,

  'column of another table': `
alter table cups add column origin text;
update cups c set origin = b.origin from beans b where b.id = c.bean_id;
alter table cups alter column origin set not null;
comment on column cups.origin is 'as in beans';
alter table cups drop constraint cups_state_check;
alter table cups add constraint cups_state_check check (state in ('full', 'half', 'empty'));
drop index cups_by_bean;
create unique index one_full_cup on cups (bean_id) where state = 'full';
create index cups_by_origin on cups (origin, id);`,

  'columns and constraints in one statement': `
alter table beans
  add column roast int check (roast between 1 and 5),
  add column decaf boolean not null default false,
  drop constraint known_kind,
  add constraint known_kind check (kind in ('arabica', 'robusta', 'liberica')) not valid,
  alter column origin drop not null;
alter table beans alter column decaf set default true;
alter table beans alter column decaf drop default;
comment on table beans is 'what cups are made of';`,

  'columns alone': `
alter table orders add column placed_at timestamptz not null default now(), add column paid int8;
comment on column orders.paid is 'base units';`,

  'index for a search': `
create function letters(text text) returns text[] language sql immutable parallel safe strict
as $$ select array_agg(distinct letter) from unnest(string_to_array(text, null)) as letter $$;
create index beans_by_letters on beans using gin (letters(origin));
create statistics beans_letters on (length(origin)) from beans;`,

  'triggers and rows': `
create function keep_orders() returns trigger language plpgsql as $$ begin return old; end $$;
create trigger kept before delete on orders for each row execute function keep_orders();
create constraint trigger kept_in_time after update of paid on orders
  deferrable initially deferred for each row execute function keep_orders();
update orders set paid = 1;
delete from cups where state = 'empty';`,

  'partitioned table': `
alter table events drop constraint events_type_check, drop constraint of_subscription_or_plan;
alter table events add constraint known_type check (type <> 'other') not valid,
  add column tone text;
create index events_by_tone on events (app_id, tone);
create table events_2020_01 partition of events
  for values from ('00000000-0000-0000-0000-000000000000') to ('016f6000-0000-7000-0000-000000000000');`,

  views: `
create view full_cups as select id, origin from cups where state = 'full';
create or replace view full_cups as select id, origin, bean_id from cups where state = 'full';
comment on view full_cups is 'cups to sell';`,

  'one table in place of two': `
alter table orders rename to sales;
alter table sales rename column paid to price;
alter index orders_pkey rename to sales_pkey;
alter table sales rename constraint orders_cup_id_fkey to sales_cup_id_fkey;
insert into sales (id, price) select id, roast from beans;
create view orders as select id, cup_id, price as paid from sales;
drop view full_cups;
drop table cups cascade;`,

  'in steps': `-- concurrently
alter table beans add column if not exists grade text not null default 'plain';
create index concurrently if not exists beans_by_grade on beans (grade);
alter table beans drop constraint if exists known_grade,
  add constraint known_grade check (grade in ('plain', 'fine')) not valid;
alter table beans validate constraint known_grade;
drop index concurrently if exists beans_by_letters;
-- batches
update beans set grade = 'fine' where id in (
  select id from beans where id > $1 and grade = 'plain' order by id limit 2000)
returning id;`,
};

export const madeMigrations: readonly Migration[] = Object.entries(texts).map(
  ([name, text], index) => ({
    version: 9001 + index,
    name,
    text,
    checksum: name,
    minRelease: null,
  }),
);
