-- The transfer of a refund that lands again, as another transaction, is a refund of its own.
-- min_release: 0.1.0

alter table refunds
  drop constraint refunds_reference_key,
  add column repeats uuid,
  add constraint refunds_repeats_fkey foreign key (repeats) references refunds (id) not valid,
  add constraint repeat_is_recorded check (repeats is null or status = 'succeeded') not valid;
create unique index refunds_by_reference on refunds (reference) where repeats is null;
create unique index refunds_by_repeated on refunds (repeats, tx_signature)
  where repeats is not null;
comment on column refunds.reference is 'a random address among the transfer''s accounts, by which the transaction is found; a refund that repeats another one has its reference';
comment on column refunds.look_at is 'time of the next look-up of the transfer by a keeper; null once it is recorded and cannot land again, or a day after the request';
comment on column refunds.repeats is 'the refund whose transfer landed again, as the transaction of this row';
