-- Rights of serve that column grants cannot express: a revoked key stays revoked, and the event
-- feed needs no pg_read_all_stats.

create function keep_key_revoked() returns trigger language plpgsql as $$
begin
  raise exception 'a revoked API key stays revoked' using errcode = 'check_violation', table = 'api_keys', column = 'revoked_at';
end
$$;
create trigger key_stays_revoked before update on api_keys for each row
  when (old.revoked_at is not null and new.revoked_at is null) execute function keep_key_revoked();

-- Returns when the oldest transaction of this database that may still write began. Ignores
-- transactions older than 10 s that have written nothing (a dump). Returns one minute ago while
-- sessions are hidden. Runs with the rights of the owner, which has pg_read_all_stats, so that no
-- daemon can read the statements of others.
create function oldest_writer() returns timestamptz
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
  select least(
    min(xact_start) filter (where backend_xid is not null or xact_start > now() - interval '10 seconds'),
    case when bool_or(query = '<insufficient privilege>') then now() - interval '1 minute' end
  )
  from pg_stat_activity
  where datname = current_database() and (backend_type = 'client backend' or backend_type is null)
$$;
revoke execute on function oldest_writer() from public;
