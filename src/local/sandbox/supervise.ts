// Runs our own commands as processes beside this one and starts them again when they die, as
// systemd does for an operator.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { backoff } from '../../backoff.ts';
import { OperatorError } from '../../errors.ts';

const program = new URL('../../../bin/billing.js', import.meta.url).pathname;

export interface Supervised {
  name: string;
  /** Times that it was started again. */
  restarts(): number;
  /** kill -9, as a machine that loses power would. */
  kill(): void;
  /**
   * Resolves when `url` responds with 200. Throws an OperatorError with the log's end after 30 s,
   * or the reason with which `signal` was aborted.
   */
  ready(signal?: AbortSignal): Promise<void>;
  /** SIGTERM, and resolves when it has ended; SIGKILL after 15 s. */
  stop(): Promise<void>;
}

export interface SuperviseOptions {
  name: string;
  args: string[];
  /** Node's own options, before the program. */
  nodeArgs?: string[];
  env: Record<string, string>;
  /** File of its stdout and stderr. */
  logFile: string;
  /** Answers 200 when it can do its work. */
  readyUrl: string;
}

/** Starts `billing <args>` and keeps it running until stop(). */
export function supervise({
  name,
  args,
  nodeArgs = [],
  env,
  logFile,
  readyUrl,
}: SuperviseOptions): Supervised {
  const log = createWriteStream(logFile, { flags: 'a' });
  let child: ChildProcess | undefined;
  let stopping = false;
  let restarts = 0;
  let quickDeaths = 0;
  let timer: NodeJS.Timeout | undefined;
  let ended: Promise<unknown> = Promise.resolve();

  const start = () => {
    const startedAt = Date.now();
    // The channel closes when this process ends for any reason, and the child then stops. In its
    // own process group the child does not get the terminal's ctrl-C: it is stopped in its turn,
    // while the servers that it needs still run.
    child = spawn(process.execPath, [...nodeArgs, program, ...args], {
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    });
    child.stdout?.pipe(log, { end: false });
    child.stderr?.pipe(log, { end: false });
    ended = once(child, 'exit').then(() => {
      if (stopping) return;
      quickDeaths = Date.now() - startedAt < 2000 ? quickDeaths + 1 : 0;
      restarts += 1;
      timer = setTimeout(
        start,
        quickDeaths === 0 ? 0 : backoff(quickDeaths, { base: 100, cap: 2000 }),
      );
    });
  };
  start();

  return {
    name,
    restarts: () => restarts,
    kill() {
      child?.kill('SIGKILL');
    },
    async ready(signal) {
      const deadline = Date.now() + 30_000;
      while (!(await answers(readyUrl))) {
        signal?.throwIfAborted();
        if (Date.now() > deadline) {
          const said = await readFile(logFile, 'utf8').catch(() => '');
          throw new OperatorError(
            `${name} is not ready after 30 s. The end of ${logFile}:\n${said.split('\n').slice(-15).join('\n')}`,
          );
        }
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    async stop() {
      stopping = true;
      clearTimeout(timer);
      child?.kill('SIGTERM');
      const forced = setTimeout(() => child?.kill('SIGKILL'), 15_000);
      await ended;
      clearTimeout(forced);
      log.end();
    },
  };
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
