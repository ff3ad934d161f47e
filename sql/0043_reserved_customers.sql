-- An offer reserves its session's customer once its signed transaction may be sent.
-- min_release: 0.1.0

alter table offered_transactions add column reserved_height bigint;
comment on column offered_transactions.reserved_height is 'last block height at which the transaction, which may have been sent, can land: until then it reserves the customer of the session; null while it was only asked for';
