// pg-boss with the same job, at its best: each loop fetches a batch, sends it concurrently and
// completes it in one call. The package's own work() is slower.
import { randomUUID } from 'node:crypto';
import { bodyOf, now, type Database, type Receivers } from './harness.ts';
import { createAttemptLog, createSender, type Payload } from './job.ts';
import { requirePeer } from './peers.ts';

/** The parts of pg-boss that the benchmark calls. */
interface PgBoss {
  on(event: 'error', listener: (error: Error) => void): void;
  start(): Promise<unknown>;
  stop(options: { graceful: boolean }): Promise<void>;
  createQueue(name: string): Promise<void>;
  insert(jobs: { name: string; data: Payload }[]): Promise<unknown>;
  fetch(queue: string, options: { batchSize: number }): Promise<{ id: string; data: Payload }[]>;
  complete(queue: string, ids: string[]): Promise<unknown>;
}
type PgBossClass = new (options: {
  connectionString: string;
  max: number;
  supervise: boolean;
  schedule: boolean;
}) => PgBoss;

const PgBoss = requirePeer('pg-boss') as PgBossClass;

const QUEUE = 'send';
const LOOPS = 4;
const BATCH_SIZE = 100;

export async function preparePgBoss({ sql, url }: Database): Promise<PgBoss> {
  await createAttemptLog(sql);
  const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false });
  boss.on('error', (error) => {
    throw error;
  });
  await boss.start();
  await boss.createQueue(QUEUE);
  return boss;
}

/**
 * Delivers a backlog of `count` jobs. Returns the deliveries per second, from the start until the
 * last job is completed.
 */
export async function deliverPgBoss(
  boss: PgBoss,
  { sql }: Database,
  receivers: Receivers,
  count: number,
): Promise<number> {
  const body = bodyOf('a delivery');
  for (let from = 0; from < count; from += 5000) {
    await boss.insert(
      Array.from({ length: Math.min(5000, count - from) }, (_, index) => ({
        name: QUEUE,
        data: {
          id: randomUUID(),
          url: receivers.urls[(from + index) % receivers.urls.length] ?? '',
          body,
        },
      })),
    );
  }
  await sql`vacuum analyze`;
  const origins = receivers.urls.map((url) => new URL(url).origin);
  const sender = createSender(sql, origins, Math.ceil((LOOPS * BATCH_SIZE) / origins.length));
  receivers.reset();
  const started = now();
  const work = async () => {
    for (;;) {
      const jobs = await boss.fetch(QUEUE, { batchSize: BATCH_SIZE });
      if (jobs.length === 0) return;
      await sender.sendAll(jobs.map((job) => job.data));
      await boss.complete(
        QUEUE,
        jobs.map((job) => job.id),
      );
    }
  };
  await Promise.all(Array.from({ length: LOOPS }, work));
  const elapsed = now() - started;
  await sender.close();
  return (count / elapsed) * 1000;
}
