// Shared by the parts of the dispatcher's benchmark: a durable Postgres, receivers in another
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
  /** A new database; `empty` leaves our schema out. */
  database(name: string, empty?: boolean): Promise<Database>;
  /** Writes everything out, so that no contender pays for another's dirty pages. */
  checkpoint(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * fsync and synchronous_commit on (the defaults); buffers as on a small server. `settings` go with
 * them.
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
  /** Resets the received requests. */
  reset(): void;
  /** Resolves with the time (Unix ms) at which request number `count` since the reset came. */
  got(count: number): Promise<number>;
  /** From now on remembers when each body came. */
  watchTimes(): void;
  /** [the body's "id", Unix ms] of each since then. */
  times(): Promise<[string, number][]>;
  /** Requests by port since the reset. */
  counts(): Promise<Map<number, number>>;
  stop(): void;
}

/** `slowMs`: delay of the responses of every open receiver except the first. */
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

/** A 700-byte body, as a payment_success has. */
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

/** Queues `count` deliveries in all, dealt out to the apps in turns, as they would come in. */
export async function fillQueue(sql: Sql, apps: SeededApp[], count: number): Promise<void> {
  const each = Math.ceil(count / apps.length);
  const body = bodyOf('a delivery');
  for (let from = 0; from < each; from += 500) {
    for (const app of apps)
      await queueBodies(sql, app, Array<string>(Math.min(500, each - from)).fill(body));
  }
}
