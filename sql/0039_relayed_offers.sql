-- What the relay takes: the signature of an offer's transaction, and when it took it.
-- min_release: 0.1.0

alter table offered_transactions
  add column signature text,
  add column relayed_at timestamptz,
  add constraint relayed_has_signature check ((signature is null) = (relayed_at is null)) not valid;
comment on column offered_transactions.signature is 'the signature (Base58) of the transaction that the relay took last for this offer; null before';
comment on column offered_transactions.relayed_at is 'when the relay first took a transaction that the wallet had signed for this offer';
