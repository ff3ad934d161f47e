// Compares the roles of Postgres with the rights and settings that the daemons need. Reads only.
import type { Queryable } from './connect.ts';
import { type DaemonRole, daemonRoles } from './daemon-roles.ts';
import { roleNames } from './grants.ts';
import { recordset } from './recordset.ts';
import { rights } from './roles.ts';
import { DURABLE_SETTINGS } from './settings.ts';

export interface RoleState {
  role: string;
  daemon: DaemonRole;
  exists: boolean;
  /** Rights that the role lacks, such as "update on payments". */
  missing: string[];
  /** The value of synchronous_commit in sessions of the role. */
  synchronousCommit: string;
}

/** The user of the connection, and whether the user owns the schema. */
export async function readUser(sql: Queryable): Promise<{ name: string; owns: boolean }> {
  const [row] = await sql<{ name: string; owns: boolean }[]>`
    select current_user as name, pg_has_role(relowner, 'usage') as owns
    from pg_class where oid = 'schema_migrations'::regclass`;
  if (row === undefined) throw new Error('the database has no schema');
  return row;
}

/** Examines the roles of all daemons. The user of the connection must own the schema. */
export async function examineRoles(sql: Queryable): Promise<RoleState[]> {
  const names = await roleNames(sql);
  return Promise.all(daemonRoles.map((daemon) => examineRole(sql, daemon, names[daemon])));
}

/** Returns the daemon whose role has this name, or undefined. */
export function daemonOf(role: string): DaemonRole | undefined {
  return daemonRoles.find((daemon) => role.endsWith(`_${daemon}`));
}

/** Examines one role. The connection's user may be this role. */
export async function examineRole(
  sql: Queryable,
  daemon: DaemonRole,
  role: string,
): Promise<RoleState> {
  const [found] = await sql`select from pg_roles where rolname = ${role}`;
  if (found === undefined)
    return { role, daemon, exists: false, missing: [], synchronousCommit: 'on' };
  const missing = await missingRights(sql, daemon, role);
  return { role, daemon, exists: true, missing, synchronousCommit: await commitOf(sql, role) };
}

export const isDurable = ({ daemon, synchronousCommit }: RoleState) =>
  (daemon !== 'serve' && daemon !== 'keeper') || DURABLE_SETTINGS.includes(synchronousCommit);

async function missingRights(sql: Queryable, daemon: DaemonRole, role: string): Promise<string[]> {
  const its = rights[daemon];
  const needed = [
    ...its.select.map((relation) => ({ privilege: 'select', relation, fixed: [] })),
    ...its.insert.map((relation) => ({ privilege: 'insert', relation, fixed: [] })),
    ...its.delete.map((relation) => ({ privilege: 'delete', relation, fixed: [] })),
    ...Object.entries(its.insertExcept ?? {}).map(([relation, fixed]) => ({
      privilege: 'insert',
      relation,
      fixed,
    })),
    ...Object.entries(its.update).map(([relation, fixed]) => ({
      privilege: 'update',
      relation,
      fixed,
    })),
  ];
  const rows = await sql<{ missing: string }[]>`
    select privilege || ' on ' || relation as missing
    from (${recordset(sql, needed, { privilege: 'text', relation: 'text', fixed: 'text[]' })}) as needed
    where case privilege
      when 'delete' then not has_table_privilege(${role}, to_regclass(relation), privilege)
      else exists (
        select from pg_attribute
        where attrelid = to_regclass(relation) and attnum > 0 and not attisdropped
          and attname <> all(fixed)
          and not has_column_privilege(${role}, attrelid, attnum, privilege))
    end
    union all
    select 'execute on ' || signature
    from unnest(${[...(its.execute ?? [])]}::text[]) as signature
    where not has_function_privilege(${role}, to_regprocedure(signature), 'execute')`;
  return rows.map(({ missing }) => missing);
}

/**
 * Returns the role's synchronous_commit. Precedence: the role in this database, the role, the
 * database, the server.
 */
async function commitOf(sql: Queryable, role: string): Promise<string> {
  const [row] = await sql<{ setting: string }[]>`
    select coalesce(
      (select split_part(setting, '=', 2)
        from pg_db_role_setting cross join unnest(setconfig) as setting
        where starts_with(setting, 'synchronous_commit=')
          and setrole in (0, (select oid from pg_roles where rolname = ${role}))
          and setdatabase in (0, (select oid from pg_database where datname = current_database()))
        order by setrole = 0, setdatabase = 0 limit 1),
      (select setting from pg_settings where name = 'synchronous_commit'
        and source not in ('user', 'database user', 'client', 'session')),
      'on') as setting`;
  return row?.setting ?? 'on';
}
