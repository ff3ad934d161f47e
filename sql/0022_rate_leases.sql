-- Shares of a rate, or of requests in flight, that several processes keep together.

create table rate_leases (
  name text not null,
  holder uuid not null,
  share int not null check (share >= 0),
  ends_at timestamptz not null,
  place text,
  pid int not null,
  primary key (name, holder)
) with (fillfactor = 50);
comment on table rate_leases is 'how much of a rate each process may use at most, until its lease ends; renewed every 1.5 s';
comment on column rate_leases.share is 'an upper bound: a smaller share counts once its holder has reported that it keeps to it';
comment on column rate_leases.place is 'machine and pid namespace, in which a starting process can see that the holder has died; null where they are not known';
