-- One search box of the dashboard: a part of a wallet, the start of an external id, a signature.
-- min_release: 0.1.0

create function grams(text text) returns text[] language sql immutable parallel safe strict as $$
  select array_agg(distinct substr(lower(text), place, 3))
  from generate_series(1, greatest(length(text) - 2, 1)) as place
$$;
comment on function grams(text) is 'every three consecutive characters in lower case, by which a part of a text is found';

create index subscriptions_by_wallet_part on subscriptions using gin (grams(subscriber_wallet));
create index subscriptions_by_external_prefix on subscriptions (app_id, external_id text_pattern_ops, id)
  where external_id is not null;
create index subscriptions_past_due on subscriptions (app_id, id) where status = 'past_due';
create index refunds_by_signature on refunds (tx_signature) where tx_signature is not null;
