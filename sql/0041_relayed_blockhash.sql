-- Whether a change of plan that the relay took may still land: a forced end waits for it.
-- min_release: 0.1.0

alter table offered_transactions add column relayed_blockhash text;
comment on column offered_transactions.relayed_blockhash is 'the blockhash of the signed transaction that the relay took last for this offer, of a change of plan; null before';
