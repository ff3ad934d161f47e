// `billing serve`, `billing keeper` and `billing dispatch`: run until SIGTERM, SIGINT or SIGHUP.
import type { Command } from 'commander';
import type { runDaemon } from '../../daemon/run.ts';
import { type EnvFlag, type SetExitCode, withEnv } from '../arguments.ts';

type Role = Parameters<typeof runDaemon>[0];
type LoadStart = Parameters<typeof runDaemon>[2];

export const addServe = daemon(
  'serve',
  async () => (await import('../../http/serve.ts')).startServe,
);
export const addKeeper = daemon(
  'keeper',
  async () => (await import('../../keeper/keeper.ts')).startKeeper,
);
export const addDispatch = daemon(
  'dispatch',
  async () => (await import('../../dispatch/dispatcher.ts')).startDispatcher,
);

function daemon(role: Role, loadStart: LoadStart) {
  return (command: Command, setExitCode: SetExitCode): void => {
    withEnv(command).action(async ({ envFile }: EnvFlag) => {
      const run = await import('../../daemon/run.ts');
      setExitCode(await run.runDaemon(role, envFile, loadStart));
    });
  };
}
