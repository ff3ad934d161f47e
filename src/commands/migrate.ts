import { loadConfig, required } from '../config.ts';
import { assertReachable, connect, describeDatabase } from '../db/connect.ts';
import { migrate } from '../db/migrate.ts';

/** `billing migrate`: applies what is missing and prints the names. Returns the exit code. */
export async function migrateCommand(envFile: string | undefined, json: boolean): Promise<number> {
  const { databaseUrl } = required(loadConfig('admin', { envFile }), 'databaseUrl');
  const sql = connect(databaseUrl, { max: 2, name: 'billing migrate' });
  try {
    await assertReachable(sql, databaseUrl);
    const applied = await migrate(sql);
    const words = applied.length === 0 ? 'The schema is up to date' : `Applied ${applied.join(', ')}`;
    process.stdout.write(json ? `${JSON.stringify({ applied })}\n` : `${words} (${describeDatabase(databaseUrl)}).\n`);
    return 0;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
