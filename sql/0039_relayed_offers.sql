-- What the relay takes: signature and blockhash of an offer's transaction, and when it took it.
-- min_release: 0.1.0

alter table offered_transactions
  add column signature text,
  add column relayed_blockhash text,
  add column relayed_at timestamptz,
  add constraint relayed_is_whole
    check (num_nulls(signature, relayed_blockhash, relayed_at) in (0, 3)) not valid;
comment on column offered_transactions.signature is 'the signature (Base58) of the transaction that the relay took last for this offer; null before';
comment on column offered_transactions.relayed_blockhash is 'the blockhash of that transaction, which a wallet may have chosen';
comment on column offered_transactions.relayed_at is 'when the relay first took a transaction that the wallet had signed for this offer';
