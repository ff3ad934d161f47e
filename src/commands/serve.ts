import { runDaemon } from '../daemon/run.ts';

/** `billing serve`: the REST API. Returns the exit code. */
export function serve(envFile: string | undefined): Promise<number> {
  return runDaemon('serve', envFile, async () => (await import('../http/serve.ts')).startServe);
}
