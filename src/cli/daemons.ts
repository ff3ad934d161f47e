// What runs all the time, and the schema it runs on.
import type { Command } from 'commander';
import { withEnv, type EnvFlag, type Finish } from './arguments.ts';

export function addDaemons(program: Command, finish: Finish): void {
  withEnv(program.command('serve').description('the REST API')).action(async ({ envFile }: EnvFlag) => {
    const { serve } = await import('../commands/serve.ts');
    finish(await serve(envFile));
  });
  withEnv(program.command('keeper').description('collects due payments and follows the chain')).action(async ({ envFile }: EnvFlag) => {
    const { keeper } = await import('../commands/keeper.ts');
    finish(await keeper(envFile));
  });
  withEnv(program.command('dispatch').description('delivers webhooks')).action(async ({ envFile }: EnvFlag) => {
    const { dispatch } = await import('../commands/dispatch.ts');
    finish(await dispatch(envFile));
  });
  withEnv(program.command('migrate').description('brings the database schema up to this release'))
    .option('--json', 'print what was applied as JSON')
    .action(async ({ envFile, json }: EnvFlag & { json?: boolean }) => {
      const { migrateCommand } = await import('../commands/migrate.ts');
      finish(await migrateCommand(envFile, json === true));
    });
}
