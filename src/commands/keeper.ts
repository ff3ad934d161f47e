import { runDaemon } from '../daemon/run.ts';

/** `billing keeper`: collects until it is stopped. Returns the exit code. */
export function keeper(envFile: string | undefined): Promise<number> {
  return runDaemon(
    'keeper',
    envFile,
    async () => (await import('../keeper/keeper.ts')).startKeeper,
  );
}
