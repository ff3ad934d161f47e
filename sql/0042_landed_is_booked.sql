-- Ended subscriptions whose account can still be pulled from, and transfers of refunds beyond what
-- was left of their payment.
-- min_release: 0.1.0

-- `pullable` is true for the rows that exist too, so that keepers look at each ended one once. Their
-- `pulled_through` is the epoch: keepers have read them after their end.
alter table subscriptions
  add column pullable boolean not null default true,
  add column pulled_through timestamptz default 'epoch';
alter table subscriptions alter column pulled_through drop default;
create index subscriptions_ended_pullable on subscriptions (id)
  where pullable and status in ('cancelled', 'expired');
comment on column subscriptions.pullable is 'false once the account of an ended subscription is gone, expired or registered anew: nothing can be pulled from it for this row';
comment on column subscriptions.pulled_through is 'end of the last period in which another puller than a keeper pulled after the end; null: no keeper has read the account since the end. It gives no access';

alter table refunds
  add column excess bigint not null default 0,
  add constraint excess_is_of_transfer check (excess between 0 and amount
    and (excess = 0 or status = 'succeeded')) not valid;
comment on column refunds.excess is 'the part of a landed transfer beyond what was left of the payment, which amount_refunded does not count';
