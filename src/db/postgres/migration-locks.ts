// Predicts the locks that a migration will take on existing tables. The prediction uses the text of
// the statements, because running the statements would lock the tables.
// https://www.postgresql.org/docs/current/explicit-locking.html

/**
 * Lock modes, weakest first. Statements that only read take weaker modes, which this list leaves
 * out.
 */
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

/**
 * A pattern that matches a statement, and the lock that the statement takes. The pattern's group
 * captures the locked table or index.
 */
const RULES: readonly (readonly [RegExp, LockMode])[] = [
  [/^alter table (?:if exists )?(?:only )?(\w+)/, 'ACCESS EXCLUSIVE'],
  [/^drop (?:table|index) (?:if exists )?(\w+)/, 'ACCESS EXCLUSIVE'],
  [/^create or replace view (\w+)/, 'ACCESS EXCLUSIVE'],
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
 * Returns one lock per table of `tables`: the strongest lock that the statements take on the table.
 * Tables come in the order in which they are first locked. `tableOf` maps an index name to its
 * table.
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
 * Splits a migration into statements. Each statement is one line in lower case. Comments, string
 * contents and function bodies are removed.
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
