// Compares the migrations that a database has with those of this build.
import { compareReleases, readRelease } from '../../config/release.ts';
import { OperatorError } from '../../errors.ts';
import type { Queryable } from './connect.ts';
import type { Migration } from './migration-files.ts';

/** The newest migration of release 0.1.0. Every release has the files up to it, unchanged. */
const FIRST_RELEASE = 7;

interface Applied {
  checksum: string;
  minRelease: string | null;
}

/** A build before release 0.1.0 made the database. No release has the migrations of that build. */
export class UnreleasedSchema extends OperatorError {
  constructor() {
    super(
      'This database is of a build before 0.1.0: export what you need, start on an empty one.',
      2,
    );
    this.name = 'UnreleasedSchema';
  }
}

/**
 * Reads the migrations that the database has, by version. Throws UnreleasedSchema if one of them
 * that belongs to release 0.1.0 differs from this build's file.
 */
export async function readApplied(
  sql: Queryable,
  migrations: readonly Migration[],
): Promise<Map<number, Applied>> {
  const [found] = await sql<
    { exists: boolean }[]
  >`select to_regclass('schema_migrations') is not null as exists`;
  if (found?.exists !== true) return new Map();
  // Reads these rows first, without min_release, because databases of builds before 0.1.0 may lack
  // that column.
  const first = await sql<{ version: number; checksum: string }[]>`
    select version, checksum from schema_migrations where version <= ${FIRST_RELEASE}`;
  const checksumOf = new Map(migrations.map(({ version, checksum }) => [version, checksum]));
  if (first.some(({ version, checksum }) => checksumOf.get(version) !== checksum))
    throw new UnreleasedSchema();
  const rows = await sql<({ version: number } & Applied)[]>`
    select version, checksum, min_release from schema_migrations order by version`;
  return new Map(rows.map(({ version, ...applied }) => [version, applied]));
}

/**
 * Returns the schema's version if the schema is newer than this build, otherwise undefined. Throws
 * an OperatorError. Exit code 1: the schema does not allow this release. A retry can help, because
 * a restart may start a newer release. Exit code 2: an applied migration differs from this build's
 * file.
 */
export function newerVersion(
  migrations: readonly Migration[],
  applied: ReadonlyMap<number, Applied>,
): number | undefined {
  const release = readRelease();
  let newer: number | undefined;
  for (const [version, { checksum, minRelease }] of applied) {
    const ownMigration = migrations.find((migration) => migration.version === version);
    if (ownMigration === undefined) {
      if (minRelease === null || compareReleases(release, minRelease) < 0)
        throw new OperatorError(
          `The database is at schema version ${version}, newer than this build's ${migrations.length}, on which release ${release} cannot run. Run the newer release of billing.`,
        );
      newer = version;
    } else if (ownMigration.checksum !== checksum) {
      throw new OperatorError(
        `Migration ${ownMigration.name} was applied with other contents than this build's. Run the release that the database was migrated with, or restore it.`,
        2,
      );
    }
  }
  return newer;
}
