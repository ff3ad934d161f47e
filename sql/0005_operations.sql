-- The state of the daemons for operators, and the configuration that all daemons of a database share.

create table daemons (
  id uuid primary key,
  name text not null,
  host text not null,
  pid int not null,
  started_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  trouble text
) with (fillfactor = 50);
comment on table daemons is 'one row per running daemon, written every few seconds; the row of a killed one is kept for a day';

create table installation (
  single boolean primary key default true check (single),
  cluster text not null,
  mint text not null,
  program_id text not null,
  keepers text[] not null check (cardinality(keepers) between 1 and 4),
  treasuries text[] not null check (cardinality(treasuries) between 1 and 3),
  updated_at timestamptz not null default now()
);
comment on table installation is 'written by the first daemon that starts; all others compare their configuration with it';
