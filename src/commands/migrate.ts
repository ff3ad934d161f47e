import { loadConfig, required } from '../config.ts';
import { describeDatabase } from '../db/connect.ts';
import { migrate } from '../db/migrate.ts';
import { interruptible, withPostgres } from '../run.ts';
import { answer, answerJson } from '../ui/print.ts';
import { withProgress } from '../ui/progress.ts';

/** `billing migrate`: applies what is missing and prints the names. Returns the exit code. */
export function migrateCommand(envFile: string | undefined, json: boolean): Promise<number> {
  const { databaseUrl } = required(loadConfig('admin', { envFile }), 'databaseUrl');
  return interruptible(false, () =>
    withPostgres(databaseUrl, { max: 2, name: 'billing migrate' }, async (sql) => {
      const applied = await withProgress('migrating', ({ update }) => migrate(sql, update));
      const words = applied.length === 0 ? 'The schema is up to date' : `Applied ${applied.join(', ')}`;
      if (json) answerJson({ applied });
      else answer(`${words} (${describeDatabase(databaseUrl)}).`);
      return 0;
    }),
  );
}
