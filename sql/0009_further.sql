-- A keeper's pull in a paid period is recorded as further, too: it is its own payment, and the subscriber may get it back.
alter table payments drop constraint further_is_foreign;
alter table payments add constraint further_is_success check (not further or status = 'succeeded');
comment on column payments.further is 'a pull beyond the one that paid the period: it moved USDC but pays for no other period, and has no event';
comment on column payments.fee_owed is 'the fee that was not collected, because no treasury of the plan could receive it or another puller pulled; not included in amount_gross';
comment on column subscriptions.period_pulled is 'base units known to be pulled in the period that paid_through ends; more on chain means a further pull';

alter table installation add column fee_bps int check (fee_bps between 0 and 10000);
comment on column installation.fee_bps is 'the platform fee in basis points; null until billing migrate has recorded it, for an installation older than this column';

-- The last comparison of the books with the chain (billing reconcile) over the default range, for the metrics of the keepers.
create table last_reconciliation (
  single boolean primary key default true check (single),
  finished_at timestamptz not null,
  recorded int not null check (recorded >= 0),
  on_chain int not null check (on_chain >= 0),
  differences int not null check (differences >= 0),
  unreadable int not null check (unreadable >= 0)
);
comment on column last_reconciliation.recorded is 'recorded payments that were compared';
comment on column last_reconciliation.on_chain is 'pulls of the keeper on chain that were compared';
comment on column last_reconciliation.differences is 'differences that are left, without unreadable transactions';
