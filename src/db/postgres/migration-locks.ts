// The locks that the statements of a migration take on tables that are there already. Read from the
// text: running a migration to see its locks would take them.
// https://www.postgresql.org/docs/current/explicit-locking.html

/** Weakest first. Locks below ROW EXCLUSIVE, which readers take, are not named. */
const LOCKS = [
  'ROW EXCLUSIVE',
  'SHARE UPDATE EXCLUSIVE',
  'SHARE',
  'SHARE ROW EXCLUSIVE',
  'ACCESS EXCLUSIVE',
] as const;

export type LockMode = (typeof LOCKS)[number];

export interface TableLock {
  table: string;
  mode: LockMode;
}

/** A statement's form, its lock, and in the group the table or index that is locked. */
const RULES: readonly (readonly [RegExp, LockMode])[] = [
  [/^alter table (?:if exists )?(?:only )?(\w+)/, 'ACCESS EXCLUSIVE'],
  [/^drop (?:table|index) (?:if exists )?(\w+)/, 'ACCESS EXCLUSIVE'],
  [/^create table .* partition of (\w+)/, 'ACCESS EXCLUSIVE'],
  [/^truncate (?:table )?(\w+)/, 'ACCESS EXCLUSIVE'],
  [/^create (?:constraint )?trigger .*? on (\w+)/, 'SHARE ROW EXCLUSIVE'],
  [/^create (?:unique )?index .*? on (?:only )?(\w+)/, 'SHARE'],
  [/^create statistics .* from (\w+)/, 'SHARE UPDATE EXCLUSIVE'],
  [/^comment on (?:table|column|view) (\w+)/, 'SHARE UPDATE EXCLUSIVE'],
  [/^(?:update|insert into|delete from) (?:only )?(\w+)/, 'ROW EXCLUSIVE'],
];
const FOREIGN_KEY = /\breferences (\w+)/g;
const FOREIGN_KEY_LOCK: LockMode = 'SHARE ROW EXCLUSIVE';

/**
 * Returns the strongest lock that the statements take on each table of `tables`, in the order in
 * which they take them. `tableOf` maps the name of an index to its table.
 */
export function locksOf(
  text: string,
  tables: ReadonlySet<string>,
  tableOf: ReadonlyMap<string, string>,
): TableLock[] {
  const strongest = new Map<string, LockMode>();
  const take = (name: string, mode: LockMode) => {
    const table = tableOf.get(name) ?? name;
    const held = strongest.get(table);
    if (!tables.has(table)) return;
    if (held === undefined || LOCKS.indexOf(held) < LOCKS.indexOf(mode)) strongest.set(table, mode);
  };
  for (const statement of statementsOf(text)) {
    for (const [form, mode] of RULES) {
      const [, name] = form.exec(statement) ?? [];
      if (name !== undefined) take(name, mode);
    }
    if (/^(alter|create)( unlogged)? table/.test(statement))
      for (const [, name = ''] of statement.matchAll(FOREIGN_KEY)) take(name, FOREIGN_KEY_LOCK);
  }
  return [...strongest].map(([table, mode]) => ({ table, mode }));
}

/**
 * Splits a migration into its statements: in lower case, on one line, without comments, the text of
 * strings and the bodies of functions.
 */
function statementsOf(text: string): string[] {
  return text
    .replaceAll(/--[^\n]*|'(?:[^']|'')*'|(\$\w*\$).*?\1/gs, (found) =>
      found.startsWith('--') ? ' ' : "''",
    )
    .split(';')
    .map((statement) => statement.replaceAll(/\s+/g, ' ').trim().toLowerCase())
    .filter((statement) => statement !== '');
}
