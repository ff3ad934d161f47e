// Ends the embedded Postgres when the process that started it ends. A separate process, the guard,
// does this. If the guard is killed too, the next start on the same data directory stops the old
// server.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readlink, realpath } from 'node:fs/promises';
import { platform } from 'node:os';
import { join } from 'node:path';
import pRetry from 'p-retry';

/**
 * Starts the guard of a Postgres server: a shell that reads its stdin. When this process ends for
 * any reason, the stdin closes and the shell ends `server`. If the server ends first, call
 * dismiss(), because the system may reuse the server's pid. Returns undefined on Windows.
 */
export function guardOf(server: ChildProcess): ChildProcess | undefined {
  if (server.pid === undefined || platform() === 'win32') return undefined;
  const guard = spawn('/bin/sh', ['-c', 'read _; kill -QUIT "$0"', String(server.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  guard.on('error', () => undefined).unref();
  return guard;
}

/** Ends the guard process of a server that has ended. */
export async function dismiss(guard: ChildProcess | undefined): Promise<void> {
  if (guard?.pid === undefined || guard.exitCode !== null || guard.signalCode !== null) return;
  // An unreferenced child process does not keep Node running, so Node could exit during the wait
  // below.
  guard.ref();
  guard.kill('SIGKILL');
  await once(guard, 'exit');
}

/** Server settings that record this process's pid as the owner of the Postgres server. */
export function ownerSettings(): Record<string, string> {
  return { 'billing.owner': String(process.pid) };
}

/**
 * Stops the Postgres server of a data directory if the process that started the server is gone. On
 * a system without /proc, this function stops nothing, and a second server refuses to start on the
 * data directory.
 */
export async function stopOrphan(cluster: string): Promise<void> {
  const pid = await serverOf(cluster);
  if (pid === undefined) return;
  const owner = await ownerOf(pid);
  if (owner !== undefined && (await parentOf(pid)) !== owner) await end(pid);
}

/**
 * Returns the pid of the Postgres server that runs in a data directory. The pid in postmaster.pid
 * may by now belong to another process. The pid is therefore used only if its process has the data
 * directory as working directory.
 */
async function serverOf(cluster: string): Promise<number | undefined> {
  const pidFile = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number.parseInt(pidFile, 10);
  const directory = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
  return directory === undefined || directory !== (await realpath(cluster)) ? undefined : pid;
}

/** Returns the owner's pid, which ownerSettings() put into the server's command line. */
async function ownerOf(pid: number): Promise<number | undefined> {
  const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return numberIn(/(?:^|\0)billing\.owner=(\d+)(?:\0|$)/.exec(command));
}

/**
 * Returns the pid of a process's parent, or undefined when the process has ended. After the parent
 * has ended, the process has another parent.
 */
async function parentOf(pid: number): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return numberIn(/^PPid:\s*(\d+)$/m.exec(status));
}

/**
 * Requests a fast shutdown of Postgres. Resolves when the process has ended. Rejects after 30 s.
 */
async function end(pid: number): Promise<void> {
  const send = (signal: 'SIGINT' | 0) => {
    try {
      return process.kill(pid, signal);
    } catch {
      return false;
    }
  };
  send('SIGINT');
  const ended = () => {
    if (send(0))
      throw new Error(`the Postgres of an earlier sandbox (process ${pid}) does not end`);
  };
  await pRetry(ended, { retries: 1200, factor: 1, minTimeout: 25, maxRetryTime: 30_000 });
}

function numberIn(match: RegExpExecArray | null): number | undefined {
  return match?.[1] === undefined ? undefined : Number(match[1]);
}
