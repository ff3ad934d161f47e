-- Closings of sponsored accounts by keepers: one keeper claims each of them, and what they cost.
-- min_release: 0.1.0

alter table sponsorships
  add column closings int not null default 0 check (closings >= 0),
  add column closing_fee bigint not null default 0 check (closing_fee >= 0),
  add column closing_at timestamptz,
  add constraint closing_is_whole check ((closings = 0) = (closing_at is null)) not valid;
create index sponsorships_closing on sponsorships (closing_at) where closing_at is not null;
comment on column sponsorships.closings is 'transactions that keepers sent to close the subscription account and take its rent back';
comment on column sponsorships.closing_fee is 'network fees of these transactions in lamports, whether or not they landed';
comment on column sponsorships.closing_at is 'when a keeper last claimed the closing; no other keeper sends one until that one has expired';

alter table payments
  add constraint credited_part_was_paid
    check (amount_credited <= amount_gross + credit_spent) not valid;
