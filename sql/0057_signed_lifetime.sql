-- The lifetime of the blockhash that a wallet signed with, which may be another one than the offer's.
-- min_release: 0.1.0

alter table offers
  add column signed_last_valid_block_height bigint,
  add column signed_blockhash_slot bigint,
  add constraint signed_lifetime_is_whole check (case when signature is null
      then num_nonnulls(signed_last_valid_block_height, signed_blockhash_slot) = 0
      else num_nulls(signed_last_valid_block_height, signed_blockhash_slot) in (0, 2) end) not valid;
comment on column offers.signed_last_valid_block_height is 'last block height at which the transaction that the relay took can land; for a blockhash that the wallet chose: 150 blocks after it was taken; null: an older release took it';
comment on column offers.signed_blockhash_slot is 'slot at which an endpoint knew its blockhash; for one that the wallet chose: the newest slot when the transaction was taken; null: an older release took it';
