// A Postgres never outlives the process that started it; one that does all the same (the guard was
// killed too) is stopped by the next start on its data.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readlink, realpath, writeFile } from 'node:fs/promises';
import { platform } from 'node:os';
import { join } from 'node:path';
import pRetry from 'p-retry';

/**
 * A shell that ends `server` when this process ends for any reason: its standard input then closes.
 * Dismiss it when the server has ended, because a pid may be used again. undefined on Windows.
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

/** Ends the guard of a server that has ended. */
export async function dismiss(guard: ChildProcess | undefined): Promise<void> {
  if (guard?.pid === undefined || guard.exitCode !== null || guard.signalCode !== null) return;
  guard.kill('SIGKILL');
  await once(guard, 'exit');
}

const OWNER_FILE = 'owner';

/** Records that this process has started the server of this data directory. */
export async function recordOwner(root: string): Promise<void> {
  await writeFile(join(root, OWNER_FILE), `${process.pid}\n`);
}

/**
 * Stops the server of this data directory when the process that started it is gone. Where there is
 * no /proc, Postgres itself refuses a second server.
 */
export async function stopOrphan(root: string, cluster: string): Promise<void> {
  const pid = await numberIn(join(cluster, 'postmaster.pid'));
  if (pid === undefined || !(await isServerOf(cluster, pid))) return;
  if ((await parentOf(pid)) !== (await numberIn(join(root, OWNER_FILE)))) await end(pid);
}

/** The working directory of a server is its data directory. */
async function isServerOf(cluster: string, pid: number): Promise<boolean> {
  const directory = await readlink(`/proc/${pid}/cwd`).catch(() => undefined);
  return directory !== undefined && directory === (await realpath(cluster));
}

/** The parent of a process, which changes when that ends; undefined when the process has ended. */
async function parentOf(pid: number): Promise<number | undefined> {
  const stat = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const parent = /^PPid:\s*(\d+)$/m.exec(stat)?.[1];
  return parent === undefined ? undefined : Number(parent);
}

/** A fast shutdown; resolves when the process has ended. Rejects after 30 s. */
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

/** The number in the first line of a file; undefined without one. */
async function numberIn(path: string): Promise<number | undefined> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const number = Number.parseInt(text, 10);
  return Number.isNaN(number) ? undefined : number;
}
