-- A sponsored transaction that an RPC endpoint has taken, and that no endpoint has seen on chain yet.
-- min_release: 0.1.0

alter table sponsorships
  drop constraint sponsorships_seen_check,
  add constraint sponsorships_seen_check check (seen in ('sent', 'processed', 'confirmed')) not valid;
comment on column sponsorships.seen is 'how far the open transaction has come, for the page: sent once an RPC endpoint took it, and again after a fork dropped it';
