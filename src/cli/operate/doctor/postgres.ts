// The checks of `billing doctor` in Postgres: connection, settings, schema, roles, installation,
// secrets and clock.
import { type Config, required } from '../../../config/config.ts';
import { describeDatabase } from '../../../config/postgres-url.ts';
import { countForeignSecrets } from '../../../db/delivering/endpoints.ts';
import { findInstallation } from '../../../db/operating/installation.ts';
import { readDatabaseFacts } from '../../../db/operating/status.ts';
import { readClockOffset } from '../../../db/postgres/clock.ts';
import { findStaleCollations } from '../../../db/postgres/collations.ts';
import { connect, type Sql } from '../../../db/postgres/connect.ts';
import { assertSchema } from '../../../db/postgres/migrate.ts';
import { knownSchema } from '../../../db/postgres/migration-files.ts';
import { assertDirect, assertUsable, databaseTrouble } from '../../../db/postgres/readiness.ts';
import {
  daemonOf,
  examineRole,
  examineRoles,
  isDurable,
  readUser,
  type RoleState,
} from '../../../db/postgres/role-check.ts';
import { daemonLimits } from '../../../db/postgres/settings.ts';
import { differences, installationOf } from '../../../domain/accounts/installation.ts';
import { fingerprintsOf } from '../../../domain/accounts/secrets.ts';
import { OperatorError } from '../../../errors.ts';
import { type Check, check, checkDatabase, unchecked } from './check.ts';

const MIN_VERSION = 14;
const REST = ['Collations', 'Schema', 'Roles', 'Installation', 'Secrets'];
/** The checks that need the schema. */
const OF_SCHEMA = REST.slice(2);

/**
 * Checks Postgres. `offsetSeconds` is how far the clock of Postgres is ahead of this host's clock.
 * It is null when the clock of Postgres could not be read.
 */
export async function checkPostgres(
  config: Config,
  handlesPayments: boolean,
): Promise<{ checks: Check[]; offsetSeconds: number | null }> {
  if (config.databaseUrl === undefined) {
    const why = 'DATABASE_URL is not set';
    return {
      checks: ['Postgres', ...REST].map((name) => unchecked(name, why)),
      offsetSeconds: null,
    };
  }
  const { databaseUrl: url, daemonDatabaseUrl } = required(
    config,
    'databaseUrl',
    'daemonDatabaseUrl',
  );
  const sql = connect(url, { max: 1, name: 'billing doctor', limits: daemonLimits });
  try {
    const usable = await checkDatabase('Postgres', url, () => server(sql, url, handlesPayments));
    const checks = [usable];
    if (config.databaseDirectUrl !== undefined)
      checks.push(await pooler(sql, url, daemonDatabaseUrl));
    if (config.reportsDatabaseUrl !== undefined)
      checks.push(await replica(config.reportsDatabaseUrl));
    if (usable.state !== 'ok') {
      const skipped = REST.map((name) => unchecked(name, 'Postgres comes first'));
      return { checks: [...checks, ...skipped], offsetSeconds: null };
    }
    checks.push(await checkDatabase('Collations', url, () => collations(sql)));
    checks.push(...(await checkContents(sql, url, config)));
    return { checks, offsetSeconds: await readClockOffset(sql).catch(() => null) };
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function server(sql: Sql, url: string, durable: boolean): Promise<string> {
  await assertUsable(sql, url, { durable });
  const trouble = await databaseTrouble(sql);
  if (trouble !== undefined)
    throw new OperatorError(`${trouble}: point DATABASE_URL at the primary.`);
  const { version } = await readDatabaseFacts(sql);
  if (Number.parseInt(version) < MIN_VERSION)
    throw new OperatorError(`Postgres ${version} is too old: version ${MIN_VERSION} or newer.`);
  return `${describeDatabase(url)}, version ${version}`;
}

async function collations(sql: Sql): Promise<string> {
  const stale = await findStaleCollations(sql);
  if (stale.length === 0) return 'the indexes are sorted as the libraries sort';
  const found = stale.map(
    ({ name, recorded, actual }) => `${name} has version ${recorded}, now ${actual ?? 'none'}`,
  );
  const remedies = stale.map(({ remedy }) => `${remedy};`);
  throw new OperatorError(
    `The libraries that sort text have changed since the indexes were built (${found.join(', ')}), so an index may miss rows. ` +
      `As a superuser, in this database: ${remedies.join(' ')}`,
  );
}

function pooler(direct: Sql, directUrl: string, url: string): Promise<Check> {
  return checkDatabase('Pooler', url, async () => {
    const sql = connect(url, { max: 1, name: 'billing doctor', limits: daemonLimits, directUrl });
    try {
      await assertDirect({ sql, url }, { sql: direct, url: directUrl });
      return `${describeDatabase(url)} leads to the same database`;
    } finally {
      await sql.end({ timeout: 1 });
    }
  });
}

function replica(url: string): Promise<Check> {
  return checkDatabase('Reports', url, async () => {
    const sql = connect(url, { max: 1, name: 'billing doctor', limits: daemonLimits });
    try {
      await assertUsable(sql, url);
      return describeDatabase(url);
    } finally {
      await sql.end({ timeout: 1 });
    }
  });
}

async function checkContents(sql: Sql, url: string, config: Config): Promise<Check[]> {
  const schema = await checkDatabase('Schema', url, async () => {
    const newer = await assertSchema(sql);
    const version = `version ${newer ?? (await knownSchema())}`;
    return newer === undefined ? version : `${version}, of a newer release that allows this one`;
  });
  if (schema.state !== 'ok')
    return [schema, ...OF_SCHEMA.map((name) => unchecked(name, 'the schema comes first'))];
  return [
    schema,
    await checkDatabase('Roles', url, () => roles(sql, config)),
    await installation(sql, config),
    await secrets(sql, config),
  ];
}

const MAKE_ROLES = 'Run "billing migrate --roles <directory>" as the owner of the schema';

async function roles(sql: Sql, { env }: Config): Promise<string> {
  const user = await readUser(sql);
  if (!user.owns) {
    const daemon = daemonOf(user.name);
    if (daemon === undefined)
      throw new OperatorError(
        `${user.name} neither owns the schema nor is the role of a daemon: see "billing migrate --roles".`,
      );
    return describeRoles([await examineRole(sql, daemon, user.name)]);
  }
  const found = (await examineRoles(sql)).filter(({ exists }) => exists);
  if (found.length > 0) return `${user.name} owns the schema; ${describeRoles(found)}`;
  if (env === 'production')
    throw new OperatorError(
      `The daemons have no roles of their own, so each could change every table. ${MAKE_ROLES}.`,
    );
  return `${user.name} owns the schema; the daemons have no roles of their own (production needs them)`;
}

/**
 * Returns the names of the roles. Throws an OperatorError when a role lacks rights, or when the
 * synchronous_commit of `serve` or `keeper` allows Postgres to lose commits.
 */
function describeRoles(found: readonly RoleState[]): string {
  const faults = found.flatMap((state) => {
    const { role, missing, synchronousCommit } = state;
    return [
      ...(missing.length === 0 ? [] : [`${role} lacks ${missing.join(', ')}`]),
      ...(isDurable(state) ? [] : [`${role} has synchronous_commit = ${synchronousCommit}`]),
    ];
  });
  if (faults.length > 0) throw new OperatorError(`${faults.join('; ')}. ${MAKE_ROLES} again.`);
  return `${found.map(({ role }) => role).join(', ')} ${found.length === 1 ? 'has its' : 'have their'} rights`;
}

/**
 * Compares the configuration with the settings in the database. The first daemon recorded these
 * settings there, and all daemons must share them.
 */
async function installation(sql: Sql, config: Config): Promise<Check> {
  if ((config.keeperAddress ?? config.keeperKeypair) === undefined || config.treasury === undefined)
    return unchecked('Installation', 'KEEPER_ADDRESS and PLATFORM_TREASURY are needed');
  return check('Installation', async () => {
    const configured = await installationOf(config);
    const recorded = await findInstallation(sql);
    if (recorded === undefined) return 'none yet: the first daemon records this configuration';
    const isKnown = configured.keepers.every((keeper) => recorded.keepers.includes(keeper));
    if (config.keeperAddresses === undefined && isKnown) configured.keepers = recorded.keepers;
    const found = differences(recorded, configured);
    if (found.length === 0) return 'this configuration is the one in the database';
    throw new OperatorError(
      `${found.join('; ')}. Correct it, or change all daemons with "billing configure".`,
    );
  });
}

async function secrets(sql: Sql, { encryptionKeys }: Config): Promise<Check> {
  if (encryptionKeys === undefined) return unchecked('Secrets', 'ENCRYPTION_KEY is not set');
  return check('Secrets', async () => {
    const count = await countForeignSecrets(sql, fingerprintsOf(encryptionKeys));
    if (count === 0) return 'ENCRYPTION_KEY opens every webhook secret';
    throw new OperatorError(
      `${count} webhook secrets were encrypted with a key that ENCRYPTION_KEY does not list: add that key behind the first one.`,
    );
  });
}
