-- What all daemons share, and what operators see and do.

create table installation (
  single boolean primary key default true check (single),
  cluster text not null,
  mint text not null,
  program_id text not null,
  keepers text[] not null check (cardinality(keepers) between 1 and 4),
  treasuries text[] not null check (cardinality(treasuries) between 1 and 3),
  fee_bps int not null check (fee_bps between 0 and 10000),
  window_seconds int not null check (window_seconds between 0 and 86400),
  updated_at timestamptz not null default now(),
  -- The history of this database.
  timeline text check (timeline ~ '^[0-9A-F]{8}$'),
  collects_after_height int8,
  reads_from_slot int8 not null default 0,
  history_accepted_until timestamptz
);
comment on table installation is 'the configuration that all daemons share, and what keepers know of the history of Postgres; written by the first daemon that starts; all others compare their configuration with it; one row';
comment on column installation.fee_bps is 'the platform fee in basis points';
comment on column installation.window_seconds is 'renewals are collected at multiples of this many seconds of chain time; 0: at once';
comment on column installation.timeline is 'timeline of the write-ahead log when a keeper last looked: another one means that Postgres failed over and may have lost commits';
comment on column installation.collects_after_height is 'finalized block height after which a transaction whose commit was lost can no longer land; null unless keepers wait for it';
comment on column installation.reads_from_slot is 'slot of that height: accounts are not read from an older state';
comment on column installation.history_accepted_until is 'chain time: payments on chain up to it that the database lacks hold collection no more';

create table daemons (
  id uuid primary key,
  name text not null,
  host text not null,
  pid int not null,
  release text not null,
  schema_version int not null,
  started_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  stopped_at timestamptz,
  trouble text
) with (fillfactor = 50);
comment on table daemons is 'one row per daemon, written every few seconds; of those that ended, the newest of each kind stays, and killed ones for a day';
comment on column daemons.schema_version is 'the newest migration that its release knows';
comment on column daemons.stopped_at is 'when the daemon stopped in order; null while it runs, and after it was killed';

create table rate_leases (
  name text not null,
  holder uuid not null,
  share int not null check (share >= 0),
  ends_at timestamptz not null,
  place text,
  pid int not null,
  primary key (name, holder)
) with (fillfactor = 50);
comment on table rate_leases is 'how much of a rate each process may use at most, until its lease ends; renewed every 1.5 s';
comment on column rate_leases.share is 'an upper bound: a smaller share counts once its holder has reported that it keeps to it';
comment on column rate_leases.place is 'machine and pid namespace, in which a starting process can see that the holder has died; null where they are not known';

create table collection_holds (
  id uuid primary key default uuid_v7(),
  merchant_id uuid references merchants,
  plan_id uuid references plans,
  reason text not null check (length(reason) between 1 and 500),
  held_at timestamptz not null default now(),
  missing_until timestamptz,
  constraint hold_has_one_scope check (num_nonnulls(merchant_id, plan_id) <= 1),
  constraint missing_holds_all
    check (missing_until is null or num_nonnulls(merchant_id, plan_id) = 0)
);
comment on table collection_holds is 'no payment is signed while a row covers it: of one plan, of one merchant, or of all without either';
comment on column collection_holds.missing_until is 'a keeper found payments on chain, up to this chain time, that the database lacks';
create unique index one_hold_per_scope on collection_holds
  ((coalesce(plan_id, merchant_id, '00000000-0000-0000-0000-000000000000'::uuid)));

create table last_reconciliation (
  single boolean primary key default true check (single),
  finished_at timestamptz not null,
  recorded int not null check (recorded >= 0),
  on_chain int not null check (on_chain >= 0),
  differences int not null check (differences >= 0),
  unreadable int not null check (unreadable >= 0)
);
comment on table last_reconciliation is 'the last comparison of the books with the chain (billing reconcile) over the default range, for the metrics of the keepers; one row';
comment on column last_reconciliation.recorded is 'recorded payments that were compared';
comment on column last_reconciliation.on_chain is 'pulls of the keeper on chain that were compared';
comment on column last_reconciliation.differences is 'differences that are left, without unreadable transactions';

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
