// Grants each daemon's role its rights (roles.ts).
import type { Queryable } from './connect.ts';
import { type DaemonRole, daemonRoles } from './daemon-roles.ts';
import { rights, type Rights } from './roles.ts';

/**
 * Grants each existing daemon role exactly its rights and revokes all others. Returns the
 * names of the roles.
 */
export async function grantRights(sql: Queryable): Promise<string[]> {
  const names = await roleNames(sql);
  const found = await sql<{ name: string }[]>`
    select rolname as name from pg_roles where rolname = any(${Object.values(names)})`;
  const granted: string[] = [];
  for (const daemon of daemonRoles) {
    const role = names[daemon];
    if (!found.some(({ name }) => name === role)) continue;
    await sql.unsafe(await grants(sql, quoted(role), rights[daemon]));
    granted.push(role);
  }
  return granted;
}

/** Returns one multi-statement string, which Postgres runs as one transaction. */
async function grants(sql: Queryable, role: string, its: Rights): Promise<string> {
  const byColumn = (right: 'insert' | 'update', tables: Rights['update']) =>
    Object.entries(tables).map(async ([table, fixed]) => {
      const [row] = await sql<{ columns: string }[]>`
        select string_agg(quote_ident(attname), ', ') as columns from pg_attribute
        where attrelid = ${table}::regclass and attnum > 0 and not attisdropped
          and attname <> all(${[...fixed]})`;
      return `grant ${right} (${row?.columns ?? ''}) on ${table} to ${role}`;
    });
  const columns = await Promise.all([
    ...byColumn('insert', its.insertExcept ?? {}),
    ...byColumn('update', its.update),
  ]);
  const all = (right: string, tables: readonly string[]) =>
    tables.length === 0 ? '' : `grant ${right} on ${tables.join(', ')} to ${role}`;
  return [
    `revoke all on all tables in schema public from ${role}`,
    `revoke all on all functions in schema public from ${role}`,
    `grant usage on schema public to ${role}`,
    all('select', its.select),
    all('insert', its.insert),
    all('delete', its.delete),
    ...columns,
    ...(its.execute ?? []).map((name) => `grant execute on function ${name} to ${role}`),
  ].join(';\n');
}

export async function roleNames(sql: Queryable): Promise<Record<DaemonRole, string>> {
  const [row] = await sql<
    { owner: string }[]
  >`select regexp_replace(current_user, '_owner$', '') as owner`;
  const of = (daemon: DaemonRole) => `${row?.owner ?? ''}_${daemon}`;
  return {
    serve: of('serve'),
    keeper: of('keeper'),
    dispatch: of('dispatch'),
    reconcile: of('reconcile'),
  };
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
