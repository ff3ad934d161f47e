-- Sponsored changes of plan: the transaction cancels one subscription and opens and pays another.
-- No min_release: an older keeper would settle a change of plan as a sign-up without a credit.

alter table sponsored_offers
  add column replaces uuid references subscriptions on delete cascade,
  add column credit_at timestamptz,
  add constraint offer_change_is_whole check ((replaces is null) = (credit_at is null)),
  add constraint change_is_of_signed_in_wallet
    check (replaces is null or (purpose = 'subscribe' and secret_hash is null));
create index sponsored_offers_changing on sponsored_offers (replaces) where replaces is not null;
comment on column sponsored_offers.replaces is 'the subscription that the transaction cancels in favour of the one that it opens';
comment on column sponsored_offers.credit_at is 'chain time, later than the landing, for which the credit of the change was computed';

alter table sponsorships
  add column replaces uuid references subscriptions,
  add column credit_at timestamptz,
  add constraint sponsorship_change_is_whole check ((replaces is null) = (credit_at is null));
create index sponsorships_changing on sponsorships (replaces) where replaces is not null;
comment on column sponsorships.replaces is 'the subscription that the transaction cancels in favour of the one that it opens';
comment on column sponsorships.credit_at is 'chain time for which the credit of the change was computed';
