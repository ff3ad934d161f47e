// graphile-worker with the same job. For a backlog it has its best settings, found in a grid of
// settings (localQueue 500, completeJobBatchDelay 5). For latency it has the defaults, because both
// settings delay a job.
import { bodyOf, now, type Database, type Receivers } from './harness.ts';
import { createAttemptLog, createSender, type Payload } from './job.ts';
import { requirePeer } from './peers.ts';

/** The parts of graphile-worker that the benchmark calls. */
interface Graphile {
  Logger: new (createSink: () => () => unknown) => object;
  runMigrations: (options: { connectionString: string }) => Promise<void>;
  run: (options: {
    connectionString: string;
    concurrency: number;
    maxPoolSize: number;
    noHandleSignals: boolean;
    pollInterval: number;
    logger: object;
    preset: object;
    taskList: Record<string, (payload: unknown) => Promise<void>>;
  }) => Promise<{ stop(): Promise<void> }>;
}

const { Logger, run, runMigrations } = requirePeer('graphile-worker') as Graphile;

const silent = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
};

export async function prepareGraphile({ sql, url }: Database): Promise<void> {
  await runMigrations({ connectionString: url });
  await createAttemptLog(sql);
}

async function start(
  database: Database,
  receivers: Receivers,
  mode: 'throughput' | 'latency',
): Promise<() => Promise<void>> {
  const concurrency = mode === 'throughput' ? 200 : 20;
  const origins = receivers.urls.map((url) => new URL(url).origin);
  const sender = createSender(database.sql, origins, Math.ceil(concurrency / origins.length));
  const runner = await run({
    connectionString: database.url,
    concurrency,
    maxPoolSize: 10,
    noHandleSignals: true,
    pollInterval: 1000,
    logger: new Logger(() => () => silent),
    preset:
      mode === 'throughput'
        ? { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 5, failJobBatchDelay: 5 } }
        : {},
    taskList: { send: (payload) => sender.send(payload as Payload) },
  });
  return async () => {
    await runner.stop();
    await sender.close();
  };
}

/**
 * Delivers a backlog of `count` jobs. Returns the deliveries per second, from the start of the
 * worker until the last job is completed.
 */
export async function deliverGraphile(
  database: Database,
  receivers: Receivers,
  count: number,
): Promise<number> {
  const { sql } = database;
  const body = bodyOf('a delivery');
  for (let from = 0; from < count; from += 5000) {
    await sql`
      select count(graphile_worker.add_job('send', json_build_object('id', gen_random_uuid(), 'url', (${receivers.urls}::text[])[1 + number % ${receivers.urls.length}], 'body', ${body}::text)))
      from generate_series(${from}::int, ${Math.min(count, from + 5000) - 1}::int) as number`;
  }
  await sql`vacuum analyze`;
  receivers.reset();
  const started = now();
  const stop = await start(database, receivers, 'throughput');
  await receivers.got(count);
  for (;;) {
    const [row] = await sql<
      { left: boolean }[]
    >`select exists (select from graphile_worker._private_jobs) as left`;
    if (row?.left !== true) break;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const elapsed = now() - started;
  await stop();
  return (count / elapsed) * 1000;
}

/** Starts graphile-worker for single jobs. `enqueue` queues a job whose body contains `id`. */
export async function startGraphile(
  database: Database,
  receivers: Receivers,
): Promise<{ enqueue(id: string): Promise<void>; stop(): Promise<void> }> {
  const stop = await start(database, receivers, 'latency');
  const [url = ''] = receivers.urls;
  return {
    async enqueue(id) {
      await database.sql`select graphile_worker.add_job('send', json_build_object('id', ${id}::uuid, 'url', ${url}::text, 'body', ${bodyOf(id)}::text))`;
    },
    stop,
  };
}
