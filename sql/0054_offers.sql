-- One table for the transactions that wallets sign, whether the wallet or a sponsor pays for them.
-- min_release: 0.1.0

alter table offered_transactions rename to offers;
alter table offers rename column relayed_blockhash to signed_blockhash;
alter table offers rename column relayed_at to signed_at;
alter table offers
  drop constraint relayed_is_whole,
  drop constraint offer_changes_whole,
  add column blockhash_slot bigint not null default 0,
  add column sponsor text,
  add column address text,
  add column origin text,
  add column secret_hash bytea check (length(secret_hash) = 32),
  add column compute_units int check (compute_units > 0),
  add column unit_price bigint check (unit_price >= 0),
  add column loaded_data_bytes int check (loaded_data_bytes > 0),
  add column withdraws boolean not null default false,
  add column signed bytea check (length(signed) between 1 and 1232),
  add column credit_at timestamptz;

insert into offers (id, purpose, wallet, sponsor, plan_id, subscription_pda, checkout_session_id,
  address, origin, secret_hash, message, blockhash, last_valid_block_height, blockhash_slot,
  compute_units, unit_price, loaded_data_bytes, withdraws, created_at, signed, signed_at, replaces,
  credit_at, look_at)
select id, purpose, wallet, sponsor, plan_id, subscription_pda, checkout_session_id, address,
  origin, secret_hash, message, blockhash, last_valid_block_height, blockhash_slot, compute_units,
  unit_price, loaded_data_bytes, withdraws, created_at, signed, signed_at, replaces, credit_at,
  look_at
from sponsored_offers;

alter table offers
  add constraint change_is_whole
    check ((replaces is null) = (num_nonnulls(change_when, credit_at) = 0)) not valid,
  add constraint change_is_of_signed_in_wallet
    check (replaces is null or (purpose = 'subscribe' and secret_hash is null)) not valid,
  add constraint sponsored_is_whole check (case when sponsor is null
      then num_nonnulls(address, origin, secret_hash, compute_units, unit_price, loaded_data_bytes,
        signed, credit_at) = 0 and not withdraws
      else num_nulls(message, address, compute_units, unit_price, loaded_data_bytes) = 0
        and num_nonnulls(change_when, trial_hours, reserved_height, registered_at) = 0
        and not resumes and purpose not in ('publish', 'pullers', 'refund') end) not valid,
  add constraint signed_is_whole check (case when sponsor is null
      then num_nulls(signature, signed_blockhash, signed_at) in (0, 3)
      else num_nonnulls(signature, signed_blockhash) = 0
        and (signed is null) = (signed_at is null) end) not valid;
create index offers_by_plan on offers (plan_id) where plan_id is not null;
create index offers_handed_over on offers (signed_at) where signed is not null;
create index offers_handed_over_by_wallet on offers (wallet, signed_at) where signed is not null;
alter index offered_transactions_pkey rename to offers_pkey;
alter index offered_transactions_by_age rename to offers_by_age;
alter index offered_transactions_by_pda rename to offers_by_pda;
alter index offered_transactions_by_session rename to offers_by_session;
alter index offered_transactions_by_wallet rename to offers_by_wallet;
alter index offered_transactions_changing rename to offers_changing;
alter table offers rename constraint offered_transactions_change_when_check to offers_change_when_check;
alter table offers rename constraint offered_transactions_purpose_check to offers_purpose_check;
alter table offers rename constraint offered_transactions_checkout_session_id_fkey to offers_checkout_session_id_fkey;
alter table offers rename constraint offered_transactions_plan_id_fkey to offers_plan_id_fkey;
alter table offers rename constraint offered_transactions_replaces_fkey to offers_replaces_fkey;

comment on table offers is 'unsigned transactions offered to wallets for signing, written by serve; a keeper rebuilds the message of a sponsored one and never signs stored bytes; deleted after ten minutes; after 24 hours: signed sponsored ones, a day after their transaction has ended; offers to subscribe and relayed offers to resume, once they are registered or given up, at the latest after 30 days';
comment on column offers.sponsor is 'the wallet of the keeper that pays for the transaction and sends it; null: the wallet pays, and the relay sends';
comment on column offers.address is 'sponsored: network of the client that asked for the offer, for its budget';
comment on column offers.origin is 'sponsored: Origin of the page that asked; only it may use the secret';
comment on column offers.secret_hash is 'sponsored: SHA-256 of the secret that stands for the wallet; null for an offer to a signed-in wallet';
comment on column offers.withdraws is 'sponsored; close: revokes the approval too; revoke: closes the authority too';
comment on column offers.credit_at is 'sponsored: chain time, later than the landing, for which the credit of the change was computed';
comment on column offers.blockhash_slot is 'slot of the answer with the blockhash; 0: an older release made the offer';
comment on column offers.signed is 'sponsored: the transaction with the wallet''s signature, as the page sent it';
comment on column offers.signature is 'the signature (Base58) of the transaction that the relay took last for this offer; null before, and where a sponsor pays';
comment on column offers.signed_blockhash is 'the blockhash of that transaction, which a wallet may have chosen';
comment on column offers.signed_at is 'when the service first took a transaction that the wallet had signed for this offer';
comment on column offers.look_at is 'time before which no keeper looks at the offer: reads the account at subscription_pda again, or decides about a signed sponsored one; null: no keeper has; infinity: given up, because there is no live account after 24 hours, or a registered one';

-- The two tables as the release before knows them, for its daemons while they are replaced.
create view offered_transactions as
  select id, wallet, blockhash, message, last_valid_block_height, purpose, plan_id,
    subscription_pda, checkout_session_id, created_at, resumes, registered_at, replaces,
    change_when, signature, signed_blockhash as relayed_blockhash, signed_at as relayed_at,
    reserved_height, trial_hours, look_at
  from offers where sponsor is null;
create view sponsored_offers_before as
  select id, purpose, wallet, sponsor, plan_id, subscription_pda, checkout_session_id, address,
    origin, secret_hash, message, blockhash, last_valid_block_height, blockhash_slot,
    compute_units, unit_price, loaded_data_bytes, withdraws, created_at, signed, signed_at,
    replaces, credit_at, look_at
  from offers where sponsor is not null;

-- Their rights are those of the tables: the daemons of the release before go on meanwhile.
do $$
declare given record;
begin
  for given in
    select view, privilege_type as privilege, grantee::regrole as role, null as col
    from (values ('offered_transactions', 'offers'::regclass),
        ('sponsored_offers_before', 'sponsored_offers'::regclass)) as of (view, base)
      join pg_class on pg_class.oid = base, aclexplode(relacl)
    where grantee <> 0
    union all
    select view, privilege_type, grantee::regrole,
      case when base = 'sponsored_offers'::regclass then attname::text
        when attname = 'signed_blockhash' then 'relayed_blockhash'
        when attname = 'signed_at' then 'relayed_at' else attname::text end
    from (values ('offered_transactions', 'offers'::regclass),
        ('sponsored_offers_before', 'sponsored_offers'::regclass)) as of (view, base)
      join pg_attribute on attrelid = base and not attisdropped, aclexplode(attacl)
    where grantee <> 0
  loop
    execute format('grant %s%s on %I to %s', given.privilege,
      coalesce(' (' || quote_ident(given.col) || ')', ''), given.view, given.role);
  end loop;
end $$;
drop table sponsored_offers;
alter view sponsored_offers_before rename to sponsored_offers;
