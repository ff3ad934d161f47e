// Versions of collations. After an upgrade of the operating system, glibc or ICU may sort text in
// another order than when the indexes were built. Such an index misses rows, and a unique index
// accepts duplicates.
import type { Queryable } from './connect.ts';

export interface StaleCollation {
  name: string;
  recorded: string;
  /** The version of the library; null if the library does not have the collation. */
  actual: string | null;
  /** The statements that build the indexes again, and then record the actual version. */
  remedy: string;
}

/**
 * Lists the database's own collation and the collations of indexes, if the library's version
 * differs from the recorded version. Postgres 15 and later record the version for a database.
 */
export async function findStaleCollations(sql: Queryable): Promise<StaleCollation[]> {
  const [server] = await sql<{ recordsDatabase: boolean }[]>`
    select current_setting('server_version_num')::int >= 150000 as records_database`;
  const database =
    server?.recordsDatabase === true
      ? await sql<StaleCollation[]>`
          select 'the database' as name, datcollversion as recorded,
            pg_database_collation_actual_version(oid) as actual,
            format('reindex (concurrently) database %1$I; alter database %1$I refresh collation version',
              datname) as remedy
          from pg_database
          where datname = current_database()
            and datcollversion <> coalesce(pg_database_collation_actual_version(oid), '')`
      : [];
  const collations = await sql<StaleCollation[]>`
    select collname as name, collversion as recorded, pg_collation_actual_version(oid) as actual,
      format('reindex (concurrently) database %I; alter collation %s refresh version',
        current_database(), oid::regcollation) as remedy
    from pg_collation
    where collversion <> coalesce(pg_collation_actual_version(oid), '')
      and oid in (select unnest(indcollation::oid[]) from pg_index)
    order by 1`;
  return [...database, ...collations];
}
