// Runs `billing` commands as child processes. A child process that ends is started again, as
// systemd does for an operator.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { backoff } from '../../backoff.ts';
import { OperatorError } from '../../errors.ts';
import { LineSink } from '../../line-sink.ts';
import { ROOT } from '../../root.ts';

const PROGRAM = fileURLToPath(new URL('bin/billing.js', ROOT));

export interface Supervised {
  name: string;
  /** Returns the number of times that the process was started again. */
  restarts(): number;
  /** Ends the process with kill -9. The process is then started again. */
  kill(): void;
  /**
   * Resolves when `readyUrl` responds with a 2xx status. After 30 s throws an OperatorError with
   * the last lines of the log. When `signal` aborts, throws the signal's reason.
   */
  ready(signal?: AbortSignal): Promise<void>;
  /** Sends SIGTERM, and SIGKILL after 15 s. Resolves when the process has ended. */
  stop(): Promise<void>;
}

export interface SuperviseOptions {
  name: string;
  args: string[];
  /** Path of another release's `bin/billing.js`. Default: this release's. */
  program?: string;
  /** Options of Node itself, which precede the program's path on the command line. */
  nodeArgs?: string[];
  env: Record<string, string>;
  /** File that the process's stdout and stderr are appended to. */
  logFile: string;
  /** URL that responds with a 2xx status when the process is ready. */
  readyUrl: string;
}

/** Starts `billing <args>` and keeps it running until stop() is called. */
export function supervise({
  name,
  args,
  program = PROGRAM,
  nodeArgs = [],
  env,
  logFile,
  readyUrl,
}: SuperviseOptions): Supervised {
  const log = openLog(logFile);
  let child: ChildProcess | undefined;
  let [stopping, restarts, quickDeaths] = [false, 0, 0];
  let timer: NodeJS.Timeout | undefined;
  let ended: Promise<unknown> = Promise.resolve();

  const start = () => {
    const startedAt = Date.now();
    // Closing the IPC channel stops the child process. The channel closes when this process ends
    // for any reason. The child process has its own process group, so Ctrl-C does not reach it.
    // stop() can therefore end the processes in order.
    child = spawn(process.execPath, [...nodeArgs, program, ...args], {
      env,
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    });
    log.follow(child);
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
      while (!(await responds(readyUrl))) {
        signal?.throwIfAborted();
        if (Date.now() > deadline) {
          const logText = await readFile(logFile, 'utf8').catch(() => '');
          throw new OperatorError(
            `${name} is not ready after 30 s. The end of ${logFile}:\n${logText.split('\n').slice(-15).join('\n')}`,
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
      await log.close();
    },
  };
}

/**
 * Appends the output of child processes to a file. If the disk is full, lines are lost, but the
 * process continues.
 */
function openLog(file: string) {
  const fd = openSync(file, 'a');
  const sink = new LineSink(fd);
  let isOpen = true;
  let closed: Promise<unknown> = Promise.resolve();
  return {
    follow(child: ChildProcess): void {
      for (const output of [child.stdout, child.stderr])
        output?.on('data', (chunk: Buffer) => {
          sink.write(chunk);
        });
      closed = new Promise((resolve) => child.once('close', resolve));
    },
    /** Waits for the last output, which may arrive after the process has ended. */
    async close(): Promise<void> {
      await closed;
      if (isOpen) closeSync(fd);
      isOpen = false;
    },
  };
}

async function responds(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2000) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}
