-- Receipts: a page for each payment, at a URL that only its parties know.
-- min_release: 0.1.0

alter table merchants
  add column legal_name text check (length(legal_name) between 1 and 120),
  add column legal_address text check (length(legal_address) between 1 and 500),
  add column tax_id text check (length(tax_id) between 1 and 60),
  add column keep_buyer_details boolean not null default false;
comment on column merchants.legal_name is 'the seller on receipts, with legal_address and tax_id; null: the name of the merchant or the app';
comment on column merchants.keep_buyer_details is 'whether the details that buyers type on receipts are stored; otherwise they are on the printed page only';

-- Details that a buyer typed on a receipt. They hold for the payments of the subscription from `since` on, so that a new address changes no earlier receipt.
create table receipt_details (
  subscription_id uuid not null references subscriptions,
  since timestamptz not null,
  name text check (length(name) <= 120),
  address text check (length(address) <= 500),
  tax_id text check (length(tax_id) <= 60),
  note text check (length(note) <= 500),
  typed_at timestamptz not null default now(),
  primary key (subscription_id, since)
);
comment on table receipt_details is 'what buyers typed on their receipts, where the merchant keeps it; all null: blank from then on';
comment on column receipt_details.since is 'occurred_at of the first payment whose receipt shows them';

-- A receipt's URL ends with an HMAC of the payment under this key, so no token is stored, a replay and a restore keep the URL, and a payment that was lost and
-- found on chain again gets the same one. The key is in the database because the details that it guards are too.
create table receipt_links (
  single boolean primary key default true check (single),
  key bytea not null check (octet_length(key) = 32),
  public_url text
);
comment on column receipt_links.key is '256 random bits, made once';
comment on column receipt_links.public_url is 'PUBLIC_URL of serve, which it records when it starts: the base of the URLs in events';
insert into receipt_links (key)
  select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
