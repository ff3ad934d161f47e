-- Queues that strangers can enter: rows that were put off are skipped, and open refunds are counted.
-- min_release: 0.1.0

alter table sponsored_offers add column look_at timestamptz;
comment on column sponsored_offers.look_at is 'time from which a keeper may take the signed offer again: it decides about it, or has put it off; null: no keeper has taken it';
create index sponsored_offers_signed_by_wallet on sponsored_offers (wallet, signed_at)
  where signed is not null;

alter table refunds add column offer_id uuid;
comment on column refunds.offer_id is 'the offer of its transfer, which tells whether the relay has taken it signed; the offer is deleted after ten minutes';

alter table plans add column look_at timestamptz;
comment on column plans.look_at is 'time before which a keeper does not read the plan again, because its account could not be read; null: observed_at decides';
create index plans_pending on plans (app_id) where status = 'pending';
