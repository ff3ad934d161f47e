// Predicts the locks that a migration will take on existing tables. The prediction uses the text of
// the statements, because running the statements would lock the tables.
// https://www.postgresql.org/docs/current/explicit-locking.html
import type { Statement } from './migration-files.ts';

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
 * captures the locked table or index. The first pattern that matches counts.
 */
const RULES: readonly (readonly [RegExp, LockMode])[] = [
  [
    /^alter table (?:if exists )?(?:only )?(\w+) validate constraint \w+$/,
    'SHARE UPDATE EXCLUSIVE',
  ],
  [
    /^alter table (?:if exists )?(?:only )?(\w+) add constraint \w+ foreign key [^,]*(?:\([^)]*\)[^,]*)*$/,
    'SHARE ROW EXCLUSIVE',
  ],
  [/^alter table (?:if exists )?(?:only )?(\w+)/, 'ACCESS EXCLUSIVE'],
  [
    /^(?:drop|create(?: unique)?) index concurrently (?:if (?:not )?exists )?(?:\w+ on )?(\w+)/,
    'SHARE UPDATE EXCLUSIVE',
  ],
  [/^drop (?:table|index|view) (?:if exists )?(\w+)/, 'ACCESS EXCLUSIVE'],
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

/** The tables, indexes and foreign keys that the statements name. */
export interface Catalog {
  readonly tables: ReadonlySet<string>;
  /** Maps an index to its table. */
  readonly tableOf: ReadonlyMap<string, string>;
  /** Maps a table to the tables that its foreign keys reference. */
  readonly references: ReadonlyMap<string, readonly string[]>;
}

/** Tells whether statements that write to the table wait for this lock. */
export function blocksWrites(mode: LockMode): boolean {
  return LOCKS.indexOf(mode) >= LOCKS.indexOf('SHARE');
}

/**
 * Returns one lock per table of `tables`: the strongest lock that the statements take on the table.
 * Tables come in the order in which they are first locked.
 */
export function locksOf(
  statements: readonly Statement[],
  { tables, tableOf, references }: Catalog,
): TableLock[] {
  const strongest = new Map<string, LockMode>();
  const take = (name: string, mode: LockMode) => {
    const table = tableOf.get(name) ?? name;
    const held = strongest.get(table);
    if (!tables.has(table)) return;
    if (held === undefined || LOCKS.indexOf(held) < LOCKS.indexOf(mode)) strongest.set(table, mode);
  };
  for (const { form } of statements) {
    const [rule, mode] = RULES.find(([pattern]) => pattern.test(form)) ?? [];
    if (rule !== undefined && mode !== undefined) take(rule.exec(form)?.[1] ?? '', mode);
    const [, dropped = ''] = /^drop table (?:if exists )?(\w+)/.exec(form) ?? [];
    for (const name of references.get(dropped) ?? []) take(name, 'ACCESS EXCLUSIVE');
    const [, parent = ''] = /^create table .* partition of (\w+)/.exec(form) ?? [];
    for (const name of references.get(parent) ?? []) take(name, FOREIGN_KEY_LOCK);
    if (/^(alter|create)( unlogged)? table/.test(form))
      for (const [, name = ''] of form.matchAll(FOREIGN_KEY)) take(name, FOREIGN_KEY_LOCK);
  }
  return [...strongest].map(([table, mode]) => ({ table, mode }));
}
