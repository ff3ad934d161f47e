// The daemons, and the commands for their schema and configuration.
import type { Command } from 'commander';
import { withEnv, type EnvFlag, type Finish } from './arguments.ts';
import type { ConfigureFlags } from './operate/configure.ts';
import type { MigrateFlags } from './operate/migrate.ts';

export function addDaemons(program: Command, finish: Finish): void {
  withEnv(program.command('serve').description('the REST API')).action(
    async ({ envFile }: EnvFlag) => {
      const { serve } = await import('../commands/serve.ts');
      finish(await serve(envFile));
    },
  );
  withEnv(
    program.command('keeper').description('collects due payments and follows the chain'),
  ).action(async ({ envFile }: EnvFlag) => {
    const { keeper } = await import('../commands/keeper.ts');
    finish(await keeper(envFile));
  });
  withEnv(program.command('dispatch').description('delivers webhooks')).action(
    async ({ envFile }: EnvFlag) => {
      const { dispatch } = await import('../commands/dispatch.ts');
      finish(await dispatch(envFile));
    },
  );
  withEnv(
    program
      .command('configure')
      .description(
        'records cluster, mint, program, keepers, treasuries and the platform fee, which all daemons must share',
      ),
  )
    .option('--yes', 'do not ask')
    .option('--json', 'print one JSON object')
    .action(async (flags: ConfigureFlags) => {
      const { configure } = await import('./operate/configure.ts');
      finish(await configure(flags));
    });
  withEnv(program.command('migrate').description('migrates the database schema to this release'))
    .option(
      '--roles <directory>',
      "create a Postgres role for each daemon and for reconcile, and write its URL to a file there; existing roles keep their files' passwords",
    )
    .option('--json', 'print the applied migrations as JSON')
    .action(async (flags: MigrateFlags) => {
      const { migrateCommand } = await import('./operate/migrate.ts');
      finish(await migrateCommand(flags));
    });
}
