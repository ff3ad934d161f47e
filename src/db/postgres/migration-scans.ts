// Predicts which existing tables a statement of a migration reads from end to end. Bodies of
// functions are not known here.
// https://www.postgresql.org/docs/current/sql-altertable.html#SQL-ALTERTABLE-NOTES
import type { Statement } from './migration-files.ts';

/**
 * Actions of `alter table` that read or rewrite every row. A default is computed for each row
 * unless it is a constant or now().
 */
const SCANNING = [
  /^validate constraint /,
  /^add constraint \w+ (?!.* not valid$)/,
  /^add (?:check|foreign key|unique|primary key|exclude)\b(?!.* not valid$)/,
  /^add (?!constraint )(?:column )?(?:if not exists )?\w+ .*\b(?:check|references|unique|primary key|generated always as)\b(?!.* not valid$)/,
  /^add (?!constraint )(?:column )?(?:if not exists )?\w+ .*\bdefault (?!now\()\w+\(/,
  /^alter (?:column )?\w+ (?:set data )?type /,
  /^alter (?:column )?\w+ set not null$/,
];

/** Returns the tables of `tables` that a statement reads from end to end, each once. */
export function scannedBy({ form }: Statement, tables: ReadonlySet<string>): string[] {
  return [...new Set(readBy(form))].filter((table) => tables.has(table));
}

function readBy(form: string): string[] {
  const [, altered, actions] = /^alter table (?:if exists )?(?:only )?(\w+) (.*)$/.exec(form) ?? [];
  if (altered !== undefined && actions !== undefined) {
    const scanning = actionsOf(actions).some((action) =>
      SCANNING.some((pattern) => pattern.test(action)),
    );
    return scanning ? [altered] : [];
  }
  const [, indexed] =
    /^create (?:unique )?index (?:concurrently )?.*? on (?:only )?(\w+)/.exec(form) ?? [];
  if (indexed !== undefined) return [indexed];
  if (!/^(?:update|delete|insert|with|select|create table \w+ as) /.test(form)) return [];
  return [...form.matchAll(/(?:\b(?:from|join|using)|^update)(?: only)? (\w+)/g)].map(
    ([, name = '']) => name,
  );
}

/** Splits the actions of `alter table` at the commas outside of parentheses. */
function actionsOf(actions: string): string[] {
  let depth = 0;
  let action = '';
  const found: string[] = [];
  for (const character of actions) {
    if (character === '(') depth += 1;
    if (character === ')') depth -= 1;
    if (character === ',' && depth === 0) {
      found.push(action.trim());
      action = '';
    } else action += character;
  }
  return [...found, action.trim()];
}
