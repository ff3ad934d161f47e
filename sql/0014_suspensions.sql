create table suspensions (
  id uuid primary key default uuid_v7(),
  role text not null check (role in ('merchant', 'subscriber')),
  wallet text not null,
  reason text not null check (length(reason) between 1 and 500),
  waiting boolean not null default false,
  since timestamptz not null default now(),
  constraint one_suspension_per_wallet unique (role, wallet),
  constraint merchants_wait check (not waiting or role = 'merchant')
);
comment on table suspensions is 'a suspended wallet changes nothing over the API, and none of its payments is signed';
comment on column suspensions.waiting is 'a new merchant that waits for the operator''s approval (MERCHANTS=approval)';
