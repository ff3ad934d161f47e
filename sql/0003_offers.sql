-- Transactions: those that wallets are offered to sign, those that keepers have signed, and those
-- that a keeper pays for (sponsored).

create table offers (
  id uuid primary key default uuid_v7(),
  wallet text not null,
  purpose text not null check (purpose in
    ('subscribe', 'cancel', 'resume', 'close', 'repair', 'revoke', 'publish', 'pullers', 'refund')),
  plan_id uuid references plans on delete cascade,
  subscription_pda text,
  -- The transaction.
  message bytea,
  blockhash text not null,
  blockhash_slot int8 not null default 0,
  last_valid_block_height int8 not null,
  -- What it does beside its purpose.
  checkout_session_id uuid references checkout_sessions on delete cascade,
  trial_hours int constraint offered_trial_hours check (trial_hours between 0 and 8760),
  resumes boolean not null default false,
  withdraws boolean not null default false,
  replaces uuid references subscriptions,
  cancels boolean,
  change_when text check (change_when in ('now', 'period_end')),
  credit_at timestamptz,
  -- Who pays for it, where that is not the wallet.
  sponsor text,
  address text,
  origin text,
  secret_hash bytea check (length(secret_hash) = 32),
  compute_units int check (compute_units > 0),
  unit_price int8 check (unit_price >= 0),
  loaded_data_bytes int check (loaded_data_bytes > 0),
  -- What the wallet signed.
  signed bytea check (length(signed) between 1 and 1232),
  signed_at timestamptz,
  signature text,
  signed_blockhash text,
  signed_last_valid_block_height int8,
  signed_blockhash_slot int8,
  reserved_height int8,
  -- What became of it.
  registered_at timestamptz,
  look_at timestamptz,
  created_at timestamptz not null default now(),
  constraint plan_named_unless_of_wallet check ((purpose = 'revoke') = (plan_id is null)),
  constraint subscription_named_unless_of_plan
    check ((purpose in ('publish', 'pullers', 'revoke')) = (subscription_pda is null)),
  constraint change_is_whole
    check ((replaces is null) = (num_nonnulls(change_when, credit_at) = 0)),
  constraint change_is_of_signed_in_wallet
    check (replaces is null or (purpose = 'subscribe' and secret_hash is null)),
  constraint sponsored_is_whole check (case when sponsor is null
    then num_nonnulls(address, origin, secret_hash, compute_units, unit_price, loaded_data_bytes,
      signed, credit_at) = 0 and not withdraws
    else num_nulls(message, address, compute_units, unit_price, loaded_data_bytes) = 0
      and num_nonnulls(change_when, trial_hours, reserved_height, registered_at) = 0
      and not resumes and purpose not in ('publish', 'pullers', 'refund') end),
  constraint signed_is_whole check (case when sponsor is null
    then num_nulls(signature, signed_blockhash, signed_at) in (0, 3)
    else num_nonnulls(signature, signed_blockhash) = 0
      and (signed is null) = (signed_at is null) end),
  constraint signed_lifetime_is_whole check (
    num_nulls(signature, signed_last_valid_block_height, signed_blockhash_slot) in (0, 3))
);
comment on table offers is 'unsigned transactions offered to wallets for signing, written by serve; a keeper rebuilds the message of a sponsored one and never signs stored bytes; deleted after ten minutes; after 24 hours: signed sponsored ones, a day after their transaction has ended; offers to subscribe and relayed offers to resume, once they are registered or given up, at the latest after 30 days';
comment on column offers.message is 'the message that the wallet signs, byte for byte; null once its blockhash has expired';
comment on column offers.blockhash_slot is 'slot of the answer with the blockhash';
comment on column offers.checkout_session_id is 'the session in which the wallet subscribes';
comment on column offers.trial_hours is 'free hours that the wallet was shown; 0: none; null: it showed neither';
comment on column offers.resumes is 'the transaction resumes the cancelled account of an ended subscription, instead of opening an account';
comment on column offers.withdraws is 'sponsored; close: revokes the approval too; revoke: closes the authority too';
comment on column offers.replaces is 'the subscription that the transaction cancels in favour of the one that it opens';
comment on column offers.cancels is 'the transaction cancels the subscription that it replaces; false where that was cancelled before, and without one; null where no account is opened or resumed';
comment on column offers.credit_at is 'sponsored: chain time, later than the landing, for which the credit of the change was computed';
comment on column offers.sponsor is 'the wallet of the keeper that pays for the transaction and sends it; null: the wallet pays, and the relay sends';
comment on column offers.address is 'sponsored: network of the client that asked for the offer, for its budget';
comment on column offers.origin is 'sponsored: Origin of the page that asked; only it may use the secret';
comment on column offers.secret_hash is 'sponsored: SHA-256 of the secret that stands for the wallet; null for an offer to a signed-in wallet';
comment on column offers.signed is 'sponsored: the transaction with the wallet''s signature, as the page sent it';
comment on column offers.signed_at is 'when the service first took a transaction that the wallet had signed for this offer';
comment on column offers.signature is 'the signature (Base58) of the transaction that the relay took last for this offer; null before, and where a sponsor pays';
comment on column offers.signed_blockhash is 'the blockhash of that transaction, which a wallet may have chosen';
comment on column offers.signed_last_valid_block_height is 'last block height at which the transaction that the relay took can land; for a blockhash that the wallet chose: 150 blocks after it was taken';
comment on column offers.signed_blockhash_slot is 'slot at which an endpoint knew its blockhash; for one that the wallet chose: the newest slot when the transaction was taken';
comment on column offers.reserved_height is 'last block height at which the transaction, which may have been sent, can land: until then it reserves the customer of the session; null while it was only asked for';
comment on column offers.registered_at is 'a subscription at the address was registered since: the offer fits no other account';
comment on column offers.look_at is 'time before which no keeper looks at the offer: reads the account at subscription_pda again, or decides about a signed sponsored one; null: no keeper has; infinity: given up, because there is no live account after 24 hours, or a registered one';
create index offers_by_age on offers (created_at);
create index offers_by_wallet on offers (wallet, blockhash);
create index offers_by_pda on offers (subscription_pda) where purpose = 'subscribe';
create index offers_changing on offers (replaces) where replaces is not null;
create index offers_handed_over on offers (signed_at) where signed is not null;
create index offers_handed_over_by_wallet on offers (wallet, signed_at) where signed is not null;
-- For the cascades: offers of a deleted plan or session.
create index offers_by_plan on offers (plan_id) where plan_id is not null;
create index offers_by_session on offers (checkout_session_id)
  where checkout_session_id is not null;

create table transactions (
  id uuid primary key default uuid_v7(),
  signature bytea not null unique check (length(signature) = 64),
  bytes bytea,
  blockhash_slot int8 not null default 0,
  last_valid_block_height int8 not null,
  state text not null default 'open' check (state in ('open', 'landed', 'failed', 'expired')),
  created_at timestamptz not null default now(),
  constraint open_has_bytes check ((state = 'open') = (bytes is not null))
) with (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02);
comment on table transactions is 'every transaction signed by a keeper, committed before it is first sent; it contains payment attempts, or what a wallet was offered';
comment on column transactions.bytes is 'the signed transaction as it is sent; null once its outcome is known';
comment on column transactions.blockhash_slot is 'slot of the answer that gave the blockhash';

create table sponsorships (
  offer_id uuid primary key,
  purpose text not null
    check (purpose in ('subscribe', 'cancel', 'resume', 'close', 'repair', 'revoke')),
  wallet text not null,
  address text not null,
  sponsor text not null,
  merchant_id uuid references merchants,
  merchant_is_new boolean not null default false,
  plan_id uuid references plans,
  subscription_pda text,
  checkout_session_id uuid references checkout_sessions on delete set null,
  subscription_id uuid references subscriptions,
  replaces uuid references subscriptions,
  credit_at timestamptz,
  -- The transaction.
  transaction_id uuid unique references transactions,
  state text not null check (state in ('refused', 'open', 'landed', 'failed', 'expired')),
  reason text,
  seen text check (seen in ('sent', 'processed', 'confirmed')),
  claim_id uuid,
  lease_until timestamptz,
  -- What it cost, in lamports.
  reserved int8 not null default 0 check (reserved >= 0),
  fee int8 not null default 0 check (fee >= 0),
  authority_rent int8 not null default 0 check (authority_rent >= 0),
  authority_returned_at timestamptz,
  subscription_rent int8 not null default 0 check (subscription_rent >= 0),
  subscription_returned_at timestamptz,
  checked_at timestamptz not null default now(),
  closings int not null default 0 check (closings >= 0),
  closing_fee int8 not null default 0 check (closing_fee >= 0),
  closing_at timestamptz,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint sponsorship_change_is_whole check ((replaces is null) = (credit_at is null)),
  constraint refused_has_no_transaction check ((state = 'refused') = (transaction_id is null)),
  constraint refused_or_failed_has_reason
    check ((state in ('refused', 'failed')) = (reason is not null)),
  constraint open_has_no_end check ((state = 'open') = (ended_at is null)),
  constraint sponsorship_claim_is_whole check ((claim_id is null) = (lease_until is null)),
  constraint closing_is_whole check ((closings = 0) = (closing_at is null))
);
comment on table sponsorships is 'what a keeper made of each signed offer, and what it cost; written by keepers only';
comment on column sponsorships.address is 'network of the client, forgotten after two days';
comment on column sponsorships.merchant_is_new is 'its merchant had not brought fees when it was signed, and shares a part of the day''s budget with other new ones';
comment on column sponsorships.replaces is 'the subscription that the transaction cancels in favour of the one that it opens';
comment on column sponsorships.credit_at is 'chain time for which the credit of the change was computed';
comment on column sponsorships.seen is 'how far the open transaction has come, for the page: sent once an RPC endpoint took it, and again after a fork dropped it';
comment on column sponsorships.lease_until is 'database time until which the keeper with this claim_id follows the transaction';
comment on column sponsorships.reserved is 'lamports that the transaction can cost at most: fee and rent';
comment on column sponsorships.fee is 'network fee in lamports; once the transaction landed or failed on chain it is spent';
comment on column sponsorships.authority_rent is 'lamports for the wallet''s authority; out until authority_returned_at';
comment on column sponsorships.checked_at is 'when the accounts of the rent were last read';
comment on column sponsorships.closings is 'transactions that keepers sent to close the subscription account and take its rent back';
comment on column sponsorships.closing_fee is 'network fees of these transactions in lamports, whether or not they landed';
comment on column sponsorships.closing_at is 'when a keeper last claimed the closing; no other keeper sends one until that one has expired';
create unique index one_sponsored_signup_per_wallet on sponsorships (wallet)
  where state = 'open' and purpose = 'subscribe';
create index sponsorships_open on sponsorships (lease_until) where state = 'open';
create index sponsorships_out on sponsorships (checked_at)
  where state = 'landed' and ((authority_rent > 0 and authority_returned_at is null)
    or (subscription_rent > 0 and subscription_returned_at is null));
create index sponsorships_out_by_merchant on sponsorships (merchant_id)
  where state = 'landed' and ((authority_rent > 0 and authority_returned_at is null)
    or (subscription_rent > 0 and subscription_returned_at is null));
create index sponsorships_closing on sponsorships (closing_at) where closing_at is not null;
create index sponsorships_by_time on sponsorships (created_at);
create index sponsorships_with_address on sponsorships (created_at) where address <> '';
create index sponsorships_by_wallet on sponsorships (wallet);
create index sponsorships_by_plan on sponsorships (plan_id, created_at) where plan_id is not null;
create index sponsorships_by_pda on sponsorships (subscription_pda)
  where subscription_pda is not null;
create index sponsorships_by_session on sponsorships (checkout_session_id)
  where checkout_session_id is not null;
create index sponsorships_by_subscription on sponsorships (subscription_id)
  where subscription_id is not null;
create index sponsorships_changing on sponsorships (replaces) where replaces is not null;
