import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import postgres from 'postgres';
import t from 'tap';
import { startEmbeddedPostgres } from '../../../src/local/sandbox/postgres.ts';
import { runShared } from '../../fixtures/command.ts';
import { emptyDirectory } from '../../fixtures/directory.ts';

void t.test(
  '--data-dir of a build before 0.1.0 is refused, with the command that removes it',
  async (t) => {
    const dataDir = await emptyDirectory(t);
    // Postgres may run as another user, as in the sandbox.
    await chmod(dataDir, 0o711);
    const server = await startEmbeddedPostgres({ dataDir: join(dataDir, 'postgres') });
    const sql = postgres(server.url, { max: 1 });
    await sql`create table schema_migrations as select 1 as version, 'of that build' as checksum`;
    await sql.end();
    await server.stop();
    t.same(await runShared(['sandbox', '--no-play', '--data-dir', dataDir]), {
      code: 2,
      stdout: '',
      stderr: `billing: This database is of a build before 0.1.0: export what you need, start on an empty one. "rm -r ${dataDir}" empties the sandbox.\n`,
    });
  },
);
