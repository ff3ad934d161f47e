import { loadConfig, required } from '../../config/config.ts';
import { makeDatabaseRoles, type MadeRoles } from '../../daemon/database-roles.ts';
import { interruptible, withPostgres } from '../../daemon/run.ts';
import { recordMissingFee } from '../../db/installation.ts';
import { describeDatabase } from '../../db/postgres/connect.ts';
import { migrate } from '../../db/postgres/migrate.ts';
import { daemonRoles } from '../../db/postgres/roles.ts';
import { answer, answerJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';

export interface MigrateFlags {
  envFile?: string;
  /**
   * Directory for the files with the URLs of the daemons' roles; without it no roles are created.
   */
  roles?: string;
  json?: boolean;
}

/**
 * `billing migrate`: creates roles with --roles, applies pending migrations and prints their names.
 * Returns the exit code.
 */
export function migrateCommand({ envFile, roles, json = false }: MigrateFlags): Promise<number> {
  const config = loadConfig('admin', { envFile });
  const { databaseUrl } = required(config, 'databaseUrl');
  return interruptible(false, () =>
    withPostgres(databaseUrl, { max: 2, name: 'billing migrate' }, async (sql) => {
      const made =
        roles === undefined ? undefined : await makeDatabaseRoles(sql, databaseUrl, roles);
      const applied = await withProgress('migrating', ({ update }) => migrate(sql, update));
      const hasFee = !(await recordMissingFee(sql, config.feeBps));
      const words =
        applied.length === 0 ? 'The schema is up to date' : `Applied ${applied.join(', ')}`;
      if (json) answerJson({ applied, ...made });
      else {
        answer(`${words} (${describeDatabase(databaseUrl)}).`);
        if (!hasFee)
          answer(`Recorded PLATFORM_FEE_BPS, which all daemons must share: ${config.feeBps}.`);
        if (made !== undefined) describeRoles(made);
      }
      return 0;
    }),
  );
}

function describeRoles({ roles, files, owner, seesStatistics }: MadeRoles): void {
  for (const daemon of daemonRoles)
    answer(`${daemon} uses the role ${roles[daemon]}: DATABASE_URL_FILE=${files[daemon]}`);
  if (!seesStatistics)
    answer(
      `A superuser should "grant pg_read_all_stats to ${owner}": until then "billing listen" shows events a minute late.`,
    );
}
