// Tells before a migration runs which tables it locks and how many rows it reads. The prediction
// uses the text of the statements and the table sizes in the catalog.
import type { Queryable } from './connect.ts';
import {
  type Migration,
  runsInBatches,
  runsInSteps,
  type Statement,
  statementsOf,
} from './migration-files.ts';
import { blocksWrites, type Catalog, locksOf, type TableLock } from './migration-locks.ts';
import { scannedBy } from './migration-scans.ts';

/** Above this number of rows, a lock that blocks writes is held for about half a second. */
const MAX_HELD_ROWS = 100_000;
/** Above this number of rows, one transaction takes seconds. */
const MAX_ROWS = 1_000_000;

export interface TableScan {
  table: string;
  /** An estimate. */
  rows: number;
}

/** A migration that is not applied yet. */
export interface Planned extends Migration {
  /** Whether each statement runs by itself (runsInSteps). */
  inSteps: boolean;
  /** The locks on existing tables, each until the transaction or the step ends. */
  locks: TableLock[];
  /** The existing tables whose rows are all read, by one or more statements. */
  scans: TableScan[];
  /** What will delay the daemons, in words. */
  warnings: string[];
}

/** Reads the catalog, and returns a function that plans a migration. */
export async function readPlanner(sql: Queryable): Promise<(migration: Migration) => Planned> {
  // reltuples is -1 before the first ANALYZE. That of a partitioned table is the sum of its parts.
  const found = await sql<{ name: string; rows: number }[]>`
    select c.relname as name, (
      select coalesce(sum(greatest(part.reltuples, pg_stat_get_live_tuples(part.oid), 0)), 0)::float8
      from pg_class part
      where part.oid = c.oid
        or part.oid in (select inhrelid from pg_inherits where inhparent = c.oid)) as rows
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v')`;
  const indexes = await sql<{ name: string; table: string }[]>`
    select indexname as name, tablename as table from pg_indexes where schemaname = 'public'`;
  const keys = await sql<{ name: string; others: string[] }[]>`
    select conrelid::regclass::text as name, array_agg(distinct confrelid::regclass::text) as others
    from pg_constraint
    where contype = 'f' and connamespace = 'public'::regnamespace group by conrelid`;
  const rowsOf = new Map(found.map(({ name, rows }) => [name, rows]));
  const catalog = {
    tables: new Set(rowsOf.keys()),
    tableOf: new Map(indexes.map(({ name, table }) => [name, table])),
    references: new Map(keys.map(({ name, others }) => [name, others])),
  };
  return (migration) => plan(migration, rowsOf, catalog);
}

function plan(
  migration: Migration,
  rowsOf: ReadonlyMap<string, number>,
  catalog: Catalog,
): Planned {
  const statements = statementsOf(migration.text);
  const inSteps = runsInSteps(migration);
  const { tables } = catalog;
  const scanned = new Set(statements.flatMap((statement) => scannedBy(statement, tables)));
  const transactions = inSteps
    ? statements.filter((statement) => !runsInBatches(statement)).map((statement) => [statement])
    : [statements];
  return {
    ...migration,
    inSteps,
    locks: locksOf(statements, catalog),
    scans: [...scanned].map((table) => ({ table, rows: rowsOf.get(table) ?? 0 })),
    warnings: transactions.flatMap((transaction) => warningsOf(transaction, rowsOf, catalog)),
  };
}

/** Returns warnings about statements that run in one transaction. */
function warningsOf(
  statements: readonly Statement[],
  rowsOf: ReadonlyMap<string, number>,
  catalog: Catalog,
): string[] {
  const held = new Set<string>();
  let [rows, rowsWhileHeld] = [0, 0];
  for (const statement of statements) {
    const locks = locksOf([statement], catalog);
    for (const { table, mode } of locks) if (blocksWrites(mode)) held.add(table);
    const read = scannedBy(statement, catalog.tables)
      .map((table) => rowsOf.get(table) ?? 0)
      .reduce((sum, count) => sum + count, 0);
    // A statement that blocks no writes and changes no row delays nothing, however long it takes.
    if (locks.some(({ mode }) => mode !== 'SHARE UPDATE EXCLUSIVE')) rows += read;
    if (held.size > 0) rowsWhileHeld += read;
  }
  const words = (count: number) => `about ${Math.round(count).toLocaleString('en-US')} rows`;
  if (rowsWhileHeld > MAX_HELD_ROWS)
    return [
      `It holds ${[...held].join(', ')} while it reads ${words(rowsWhileHeld)}: until it ends, statements of the daemons wait.`,
    ];
  return rows > MAX_ROWS ? [`It reads ${words(rows)} in one transaction.`] : [];
}
