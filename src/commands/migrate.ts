import { loadConfig, required } from '../config.ts';
import { assertReachable, connect, describeDatabase } from '../db/connect.ts';
import { migrate } from '../db/migrate.ts';
import { outageOf } from '../db/outage.ts';
import { OperatorError } from '../errors.ts';
import { interruptible } from '../run.ts';
import { answer, answerJson } from '../ui/print.ts';
import { withProgress } from '../ui/progress.ts';

/** `billing migrate`: applies what is missing and prints the names. Returns the exit code. */
export function migrateCommand(envFile: string | undefined, json: boolean): Promise<number> {
  const { databaseUrl } = required(loadConfig('admin', { envFile }), 'databaseUrl');
  return interruptible(false, async () => {
    const sql = connect(databaseUrl, { max: 2, name: 'billing migrate' });
    try {
      await assertReachable(sql, databaseUrl);
      const applied = await withProgress('migrating', ({ update }) => migrate(sql, update));
      const words = applied.length === 0 ? 'The schema is up to date' : `Applied ${applied.join(', ')}`;
      if (json) answerJson({ applied });
      else answer(`${words} (${describeDatabase(databaseUrl)}).`);
      return 0;
    } catch (error) {
      const outage = outageOf(error);
      if (outage === undefined) throw error;
      throw new OperatorError(`Postgres at ${describeDatabase(databaseUrl)} ${outage}`, 1, { cause: error });
    } finally {
      await sql.end({ timeout: 1 });
    }
  });
}
