-- A replay run knows how many runs of its selection had finished when it was planned.
-- min_release: 0.1.0

alter table replays add column finished_before integer not null default 0 check (finished_before >= 0);
comment on column replays.finished_before is 'finished runs of the same selection when this one was planned: with more of them, another run has queued what it counted';
update replays open set finished_before = (
  select count(*) from replays done
  where md5(done.selection) = md5(open.selection) and done.selection = open.selection
    and done.finished_at is not null and done.finished_at < open.until)
where finished_at is null;
