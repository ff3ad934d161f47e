// `billing migrate`: applies pending migrations. With --roles the command first creates the
// Postgres roles of the daemons.
import type { Command } from 'commander';
import { loadConfig, required } from '../../config/config.ts';
import { describeDatabase } from '../../config/postgres-url.ts';
import { makeDatabaseRoles, type MadeRoles } from '../../daemon/database-roles.ts';
import { interruptible, withPostgres } from '../../daemon/run.ts';
import { moveStatistics, type StatisticsRights } from '../../db/accounts/logins.ts';
import { daemonRoles } from '../../db/postgres/daemon-roles.ts';
import { migrate, newerSchema, planMigrations } from '../../db/postgres/migrate.ts';
import type { Planned } from '../../db/postgres/migration-plan.ts';
import { isLost } from '../../db/postgres/outage.ts';
import { OperatorError } from '../../errors.ts';
import { type CommonFlags, type SetExitCode, wholeNumber, withEnv } from '../arguments.ts';
import { print, printJson } from '../terminal/print.ts';
import { withProgress } from '../terminal/progress.ts';
import { record } from './recorded.ts';

interface MigrateFlags extends CommonFlags {
  /** Directory for files with the database URLs of the daemons' Postgres roles. */
  roles?: string;
  /** Whether to print the pending migrations instead of applying them. */
  plan?: true;
  /** Seconds to wait for a Postgres that does not accept connections yet. */
  wait: number;
}

export function addMigrate(command: Command, setExitCode: SetExitCode): void {
  withEnv(command)
    .option(
      '--roles <directory>',
      "create a Postgres role for each daemon and for reconcile, and write its URL to a file there; existing roles keep their files' passwords",
    )
    .option(
      '--plan',
      'print the statements of the pending migrations with the locks that they take and the rows that they read, and change nothing',
    )
    .option(
      '--wait <seconds>',
      'how long to wait for a Postgres that does not accept connections yet',
      wholeNumber(0, 3600),
      30,
    )
    .option('--json', 'print the applied (or pending) migrations as JSON')
    .action(async (flags: MigrateFlags) => setExitCode(await migrateDatabase(flags)));
}

/** Applies the pending migrations and prints their names. Returns the exit code. */
function migrateDatabase({
  envFile,
  roles,
  plan,
  wait,
  json = false,
}: MigrateFlags): Promise<number> {
  const config = loadConfig('admin', { envFile });
  const { databaseUrl, daemonDatabaseUrl } = required(config, 'databaseUrl', 'daemonDatabaseUrl');
  const urls = { databaseUrl: daemonDatabaseUrl, directUrl: config.databaseDirectUrl };
  return interruptible(false, async (signal) => {
    await withProgress('waiting for Postgres', () => connectable(databaseUrl, wait, signal));
    return withPostgres(databaseUrl, { max: 2, name: 'billing migrate' }, async (sql) => {
      if (plan === true) return printPlan(await planMigrations(sql), json);
      const newer = await newerSchema(sql);
      if (newer !== undefined) return leaveSchema(newer, { roles, json });
      const databaseRoles =
        roles === undefined ? undefined : await makeDatabaseRoles(sql, urls, roles);
      // moveStatistics() corrects a right that earlier builds gave to the role of `serve`. The call
      // does not depend on --roles, because an upgrade needs no --roles when the roles exist.
      const statistics = await moveStatistics(sql);
      const applied = await withProgress('migrating', ({ update }) => migrate(sql, update));
      const steps = [
        ...applied,
        ...(databaseRoles === undefined ? [] : ['the roles of the daemons']),
      ];
      if (steps.length > 0) await record(sql, 'migrate', steps.join(', '), {});
      const words =
        applied.length === 0 ? 'The schema is up to date' : `Applied ${applied.join(', ')}`;
      if (json) printJson({ applied, ...databaseRoles, statistics });
      else {
        print(`${words} (${describeDatabase(databaseUrl)}).`);
        if (databaseRoles !== undefined) describeRoles(databaseRoles);
        if (statistics !== undefined) describeStatistics(statistics);
      }
      return 0;
    });
  });
}

/**
 * Waits until Postgres accepts a connection, for at most `seconds`, because an orchestrator may
 * start Postgres at the same time. Throws as withPostgres() does.
 */
async function connectable(url: string, seconds: number, signal: AbortSignal): Promise<void> {
  const { default: pRetry } = await import('p-retry');
  const asks = () =>
    withPostgres(url, { max: 1, name: 'billing migrate' }, () => Promise.resolve());
  await pRetry(asks, {
    retries: seconds * 2,
    factor: 1,
    minTimeout: 500,
    maxRetryTime: seconds * 1000,
    signal,
    shouldRetry: ({ error }) => isLost(error.cause),
  });
}

/**
 * Called when the schema belongs to a newer release. Leaves the schema unchanged. With `roles`,
 * throws an OperatorError, because only the newer release knows which rights the roles need.
 */
function leaveSchema(
  version: number,
  { roles, json }: { roles: string | undefined; json: boolean },
): 0 {
  if (roles !== undefined)
    throw new OperatorError(
      `The schema (version ${version}) is that of a newer release: run "billing migrate --roles" of that release, which knows the rights.`,
    );
  if (json) printJson({ applied: [] });
  else
    print(
      `The schema (version ${version}) is that of a newer release, on which this one runs: nothing to do.`,
    );
  return 0;
}

/**
 * Prints the pending migrations, with the tables that they lock and read, as a script or as JSON.
 */
function printPlan(pending: readonly Planned[], json: boolean): number {
  if (json) {
    printJson({
      pending: pending.map(({ name, text, inSteps, locks, scans, warnings }) => ({
        name,
        text,
        inSteps,
        locks,
        scans,
        warnings,
      })),
    });
    return 0;
  }
  if (pending.length === 0) print('The schema is up to date: no statement would run.');
  for (const migration of pending) printPlanned(migration);
  if (pending.length > 0)
    print('-- Then the partitions of the coming months are made and rights are granted.');
  return 0;
}

function printPlanned({ name, text, inSteps, locks, scans, warnings }: Planned): void {
  const form = inSteps
    ? 'each statement by itself; if it is interrupted, run "billing migrate" again'
    : 'one transaction, which waits at most 2 s for each lock and is tried again';
  print(`-- ${name}: ${form}`);
  const until = inSteps ? 'Locks until the end of a statement' : 'Locks until its end';
  print(locks.length === 0 ? '-- It locks no existing table.' : `-- ${until}:`);
  for (const { table, mode } of locks) print(`--   ${mode} on ${table}`);
  if (scans.length > 0) print('-- Reads, by the statistics of Postgres:');
  for (const { table, rows } of scans)
    print(`--   ${Math.round(rows).toLocaleString('en-US')} rows of ${table}`);
  for (const warning of warnings) print(`-- WARNING: ${warning}`);
  print(text);
}

function describeRoles({ roles, files, directFiles }: MadeRoles): void {
  for (const daemon of daemonRoles) {
    const direct =
      directFiles === undefined ? '' : ` DATABASE_DIRECT_URL_FILE=${directFiles[daemon]}`;
    print(`${daemon} uses the role ${roles[daemon]}: DATABASE_URL_FILE=${files[daemon]}${direct}`);
  }
}

function describeStatistics({ owner, ownerSees, serve, serveSees }: StatisticsRights): void {
  if (!ownerSees)
    print(
      `A superuser should "grant pg_read_all_stats to ${owner}": until then "billing listen" shows events a minute late.`,
    );
  if (serveSees)
    print(
      `A superuser should "revoke pg_read_all_stats from ${serve}": serve does not need it, and it shows the statements of all users.`,
    );
}
