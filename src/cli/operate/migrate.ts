// `billing migrate`: applies pending migrations. With --roles the command first creates the
// Postgres roles of the daemons.
import type { Command } from 'commander';
import { loadConfig, required } from '../../config/config.ts';
import { describeDatabase } from '../../config/postgres-url.ts';
import { variables } from '../../config/variables.ts';
import { makeDatabaseRoles, type MadeRoles } from '../../daemon/database-roles.ts';
import { interruptible, withPostgres } from '../../daemon/run.ts';
import { recordMissingTerms } from '../../db/installation.ts';
import { migrate } from '../../db/postgres/migrate.ts';
import { daemonRoles } from '../../db/postgres/roles.ts';
import { type CommonFlags, type Finish, withEnv } from '../arguments.ts';
import { print, printJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { record } from './recorded.ts';

interface MigrateFlags extends CommonFlags {
  /** Directory for files with the database URLs of the daemons' Postgres roles. */
  roles?: string;
}

export function addMigrate(command: Command, finish: Finish): void {
  withEnv(command)
    .option(
      '--roles <directory>',
      "create a Postgres role for each daemon and for reconcile, and write its URL to a file there; existing roles keep their files' passwords",
    )
    .option('--json', 'print the applied migrations as JSON')
    .action(async (flags: MigrateFlags) => finish(await migrateDatabase(flags)));
}

/** Applies the pending migrations and prints their names. Returns the exit code. */
function migrateDatabase({ envFile, roles, json = false }: MigrateFlags): Promise<number> {
  const config = loadConfig('admin', { envFile });
  const { databaseUrl } = required(config, 'databaseUrl');
  return interruptible(false, () =>
    withPostgres(databaseUrl, { max: 2, name: 'billing migrate' }, async (sql) => {
      const made =
        roles === undefined ? undefined : await makeDatabaseRoles(sql, databaseUrl, roles);
      const applied = await withProgress('migrating', ({ update }) => migrate(sql, update));
      const recorded = await recordMissingTerms(sql, config);
      const steps = [
        ...applied,
        ...recorded.map((term) => `${variables[term].name} ${config[term]}`),
        ...(made === undefined ? [] : ['the roles of the daemons']),
      ];
      if (steps.length > 0) await record(sql, 'migrate', steps.join(', '), {});
      const words =
        applied.length === 0 ? 'The schema is up to date' : `Applied ${applied.join(', ')}`;
      if (json) printJson({ applied, ...made });
      else {
        print(`${words} (${describeDatabase(databaseUrl)}).`);
        for (const term of recorded)
          print(`Recorded ${variables[term].name}, which all daemons must share: ${config[term]}.`);
        if (made !== undefined) describeRoles(made);
      }
      return 0;
    }),
  );
}

function describeRoles({ roles, files, statistics }: MadeRoles): void {
  for (const daemon of daemonRoles)
    print(`${daemon} uses the role ${roles[daemon]}: DATABASE_URL_FILE=${files[daemon]}`);
  if (!statistics.ownerSees)
    print(
      `A superuser should "grant pg_read_all_stats to ${statistics.owner}": until then "billing listen" shows events a minute late.`,
    );
  if (statistics.serveSees)
    print(
      `A superuser should "revoke pg_read_all_stats from ${roles.serve}": serve does not need it, and it shows the statements of all users.`,
    );
}
