-- A blockhash is dead only by an endpoint that has finalized the slot of the answer that gave the blockhash.

alter table transactions add column blockhash_slot bigint not null default 0;
comment on column transactions.blockhash_slot is 'slot of the answer that gave the blockhash; 0 for transactions of releases that did not store it';

-- A refund expires once its blockhash is dead. Refunds of earlier releases have no blockhash.
alter table refunds
  add column blockhash text,
  add column last_valid_block_height bigint,
  add column blockhash_slot bigint,
  add constraint blockhash_is_whole check (num_nulls(blockhash, last_valid_block_height, blockhash_slot) in (0, 3));
comment on column refunds.blockhash is 'the blockhash of the offered transfer';
comment on column refunds.blockhash_slot is 'slot of the answer that gave the blockhash';
