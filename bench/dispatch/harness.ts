// Helpers for the parts of the dispatcher's benchmark: a durable Postgres, receivers in another
// process, apps and backlogs.
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { connect, type Sql } from '../../src/db/postgres/connect.ts';
import { migrate } from '../../src/db/postgres/migrate.ts';
import { startEmbeddedPostgres } from '../../src/local/sandbox/postgres.ts';
import { queueBodies, seedApp, type SeededApp } from '../../test/fixtures/webhooks.ts';

export interface Database {
  url: string;
  sql: Sql;
  drop(): Promise<void>;
}

export interface Server {
  /** Creates a database with billing's schema, or with `empty` a database without tables. */
  database(name: string, empty?: boolean): Promise<Database>;
  /** Writes all dirty pages to disk, so that no contender pays for the pages of another. */
  checkpoint(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a durable Postgres (fsync and synchronous_commit are on by default) with the shared
 * buffers of a small server. `settings` are added to the server's settings.
 */
export async function startServer(settings: Record<string, string> = {}): Promise<Server> {
  const postgres = await startEmbeddedPostgres({
    settings: { shared_buffers: '512MB', max_wal_size: '4GB', ...settings },
  });
  const admin = connect(postgres.url, { max: 1, name: 'bench' });
  return {
    async database(name, empty = false) {
      await admin.unsafe(`create database ${name}`);
      const url = new URL(postgres.url);
      url.pathname = `/${name}`;
      const sql = connect(url.href, { max: 10, name: 'bench', planning: 'daemon' });
      if (!empty) await migrate(sql);
      return {
        url: url.href,
        sql,
        async drop() {
          await sql.end();
          await admin.unsafe(`drop database ${name} with (force)`);
        },
      };
    },
    async checkpoint() {
      await admin.unsafe('checkpoint');
    },
    async stop() {
      await admin.end();
      await postgres.stop();
    },
  };
}

export interface Receivers {
  urls: string[];
  hungUrls: string[];
  /** Forgets the requests received so far. */
  reset(): void;
  /**
   * Resolves with the time (Unix ms) at which request number `count` since the last reset arrived.
   */
  got(count: number): Promise<number>;
  /** Starts to record the time at which each body arrives. */
  watchTimes(): void;
  /** Returns the recorded times as pairs: the body's "id", and Unix ms. */
  times(): Promise<[string, number][]>;
  /** Returns the number of requests since the last reset, by port. */
  counts(): Promise<Map<number, number>>;
  stop(): void;
}

/**
 * Starts receivers in another process. `slowMs` is the response delay of all open receivers except
 * the first.
 */
export async function startReceivers(open: number, hung = 0, slowMs = 0): Promise<Receivers> {
  const child: ChildProcess = fork(
    fileURLToPath(new URL('receiver.ts', import.meta.url)),
    [String(open), String(hung), String(slowMs)],
    {
      execArgv: ['--import', 'tsx'],
    },
  );
  const answered = async <T>(): Promise<T> => {
    const [message] = (await once(child, 'message')) as [T];
    return message;
  };
  const ports = await answered<{ open: number[]; hung: number[] }>();
  const url = (port: number) => `http://127.0.0.1:${port}/hook`;
  return {
    urls: ports.open.map(url),
    hungUrls: ports.hung.map(url),
    reset: () => child.send('reset'),
    async got(count) {
      child.send({ after: count });
      return (await answered<{ reported: number }>()).reported;
    },
    watchTimes: () => child.send('time'),
    async times() {
      child.send('times');
      return (await answered<{ times: [string, number][] }>()).times;
    },
    async counts() {
      child.send('count');
      return new Map((await answered<{ perPort: [number, number][] }>()).perPort);
    },
    stop: () => child.kill(),
  };
}

/** Returns a body of 700 bytes, the length of a payment_success event. */
export function bodyOf(id: string): string {
  const text = JSON.stringify({ id, type: 'payment_success', data: '' });
  return text.replace('""}', `"${'x'.repeat(700 - text.length)}"}`);
}

export const now = () => performance.timeOrigin + performance.now();

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const [low, high] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted[middle]];
  return ((low ?? NaN) + (high ?? NaN)) / 2;
}

export function quantile(values: number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? NaN;
}

export async function seedApps(sql: Sql, urls: string[]): Promise<SeededApp[]> {
  const apps: SeededApp[] = [];
  for (const url of urls) apps.push(await seedApp(sql, url));
  return apps;
}

/** Queues `count` deliveries in total, alternating between the apps. */
export async function fillQueue(sql: Sql, apps: SeededApp[], count: number): Promise<void> {
  const each = Math.ceil(count / apps.length);
  const body = bodyOf('a delivery');
  for (let from = 0; from < each; from += 500) {
    for (const app of apps)
      await queueBodies(sql, app, Array<string>(Math.min(500, each - from)).fill(body));
  }
}
