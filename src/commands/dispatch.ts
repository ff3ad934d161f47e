import { runDaemon } from '../daemon/run.ts';

/** `billing dispatch`: delivers webhooks until it is stopped. Returns the exit code. */
export function dispatch(envFile: string | undefined): Promise<number> {
  return runDaemon(
    'dispatch',
    envFile,
    async () => (await import('../dispatch/dispatcher.ts')).startDispatcher,
  );
}
