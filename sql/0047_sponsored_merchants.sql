-- What may be out of a merchant in sponsored rent: what an operator vouches for, its approval, and the fees that it brought.
-- min_release: 0.1.0

alter table merchants
  add column approved_at timestamptz,
  add column sponsoring_lamports bigint,
  add constraint sponsoring_is_not_negative check (sponsoring_lamports >= 0) not valid;
comment on column merchants.approved_at is 'when an operator approved it (MERCHANTS=approval)';
comment on column merchants.sponsoring_lamports is 'sponsored rent of its subscribers that may be out, as an operator vouches; null: no operator does';
update merchants set approved_at = a.at from admin_actions a
where a.command = 'merchants approve' and a.what = 'merchant ' || merchants.wallet;

alter table sponsorships add column merchant_is_new boolean not null default false;
comment on column sponsorships.merchant_is_new is 'its merchant had not brought fees when it was signed, and shares a part of the day''s budget with other new ones';

create table merchant_fees (
  merchant_id uuid primary key references merchants,
  fees bigint not null check (fees >= 0)
);
comment on table merchant_fees is 'platform fees (base units) of the payments to each merchant that were stored before fees_counted.until';

create table fees_counted (
  single boolean primary key default true check (single),
  until timestamptz not null
);
comment on table fees_counted is 'how far keepers have added the fees of payments to merchant_fees';
-- No payment is older than the first merchant.
insert into fees_counted (until) select coalesce(min(created_at), now()) from merchants;

create view fees_brought as
select merchant_id, sum(fees)::bigint as fees from (
  select merchant_id, fees from merchant_fees
  union all
  select a.merchant_id, p.platform_fee from (
    select app_id, platform_fee, status from payments
    where id >= first_id_at((select until from fees_counted)) order by id limit 100000
  ) as p join apps a on a.id = p.app_id where p.status = 'succeeded'
) as brought group by merchant_id;
comment on view fees_brought is 'merchant_fees with the newer payments (100,000 at most)';
