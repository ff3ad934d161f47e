-- A blockhash is dead only by an endpoint that has finalized the slot of the answer that gave the blockhash.

alter table transactions add column blockhash_slot bigint not null default 0;
comment on column transactions.blockhash_slot is 'slot of the answer that gave the blockhash; 0 for transactions of releases that did not store it';
