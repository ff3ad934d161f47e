-- What keeps keepers from signing: a loss of history of this database, and operators.

alter table installation
  add column timeline text check (timeline ~ '^[0-9A-F]{8}$'),
  add column collects_after_height int8,
  add column reads_from_slot int8 not null default 0,
  add column history_accepted_until timestamptz;
comment on column installation.timeline is 'timeline of the write-ahead log when a keeper last looked: another one means that Postgres failed over and may have lost commits';
comment on column installation.collects_after_height is 'finalized block height after which a transaction whose commit was lost can no longer land; null unless keepers wait for it';
comment on column installation.reads_from_slot is 'slot of that height: accounts are not read from an older state';
comment on column installation.history_accepted_until is 'chain time: payments on chain up to it that the database lacks hold collection no more';

create table collection_holds (
  id uuid primary key default uuid_v7(),
  merchant_id uuid references merchants,
  plan_id uuid references plans,
  reason text not null check (length(reason) between 1 and 500),
  held_at timestamptz not null default now(),
  missing_until timestamptz,
  constraint hold_has_one_scope check (num_nonnulls(merchant_id, plan_id) <= 1),
  constraint missing_holds_all check (missing_until is null or num_nonnulls(merchant_id, plan_id) = 0)
);
comment on table collection_holds is 'no payment is signed while a row covers it: of one plan, of one merchant, or of all without either';
comment on column collection_holds.missing_until is 'a keeper found payments on chain, up to this chain time, that the database lacks';
create unique index one_hold_per_scope on collection_holds ((coalesce(plan_id, merchant_id, '00000000-0000-0000-0000-000000000000'::uuid)));

create table admin_actions (
  id uuid primary key default uuid_v7(),
  who text not null,
  host text not null,
  command text not null,
  what text,
  reason text,
  at timestamptz not null default now()
);
comment on table admin_actions is 'changes by operators, one row per command: the user of the operating system and the host, and what was changed';
