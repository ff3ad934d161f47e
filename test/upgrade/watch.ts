// Watches daemons during an upgrade: how long their statements wait for locks, and what the API
// answers.
import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../failover/cluster.ts';
import type { Ground } from '../failover/ground.ts';
import { stubborn } from '../failover/load.ts';

const LOOK_MS = 50;
const READ_MS = 100;
/** Once they are warm: so that reads and writes stay below 1,000 requests a minute. */
const WARM_READ_MS = 500;
/** Reads until each connection of both machines has made each of them. */
const WARM_AFTER = 300;
const READERS = 3;

/** The longest wait of a daemon's statement for a lock. */
export class LockWaits {
  readonly #ground: Ground<Database>;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  longestMs = 0;
  /** The statement that waited so long, and the statement that it waited for. */
  statement = '';

  constructor(ground: Ground<Database>) {
    this.#ground = ground;
  }

  start(): void {
    this.#running = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const [longest] = await this.#ground.cluster.sql()<
        { ms: number; query: string; blocker: string | null }[]
      >`
        select extract(epoch from clock_timestamp() - waitstart)::float8 * 1000 as ms, a.query,
          (select query from pg_stat_activity where pid = any(pg_blocking_pids(a.pid)) limit 1) as blocker
        from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where waitstart is not null and a.usename like 'postgres_%' order by waitstart limit 1`;
      if (longest !== undefined && longest.ms > this.longestMs) {
        this.longestMs = longest.ms;
        this.statement = `${longest.query.trim().slice(0, 80)} waited for ${longest.blocker?.trim().slice(0, 80) ?? 'an ended one'}`;
      }
      await pause(LOOK_MS);
    }
  }
}

/** Reads lists of the merchants at both machines. */
export class Reads {
  readonly #ground: Ground<Database>;
  readonly #stopping = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  answered = 0;
  /** Answers of 500 and above, each with its path. */
  readonly failed: string[] = [];

  constructor(ground: Ground<Database>) {
    this.#ground = ground;
  }

  start(): void {
    const { machines } = this.#ground;
    this.#running = Promise.all(
      Array.from({ length: READERS }, () => machines.map(({ apiUrl }) => this.#run(apiUrl))).flat(),
    );
  }

  /** Resolves when the connections of both machines have prepared the statements. */
  async warm(): Promise<void> {
    while (this.answered < WARM_AFTER) await pause(READ_MS);
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(apiUrl: string): Promise<void> {
    const paths = [
      '',
      '/plans',
      '/subscriptions',
      '/subscriptions?status=active',
      '/transactions',
      '/events',
      '/deliveries',
      '/attention',
      '/analytics',
      '/webhooks',
      '/checkout-sessions',
      '/refunds',
      '/unregistered',
      '/search?q=coffee',
    ];
    const { merchants } = this.#ground;
    for (let n = 0; !this.#stopping.signal.aborted; n += 1) {
      const merchant = merchants[n % merchants.length]!;
      const path = paths[n % paths.length]!;
      await this.#read(`${apiUrl}/merchant/apps/${merchant.appId}${path}`, merchant.apiKey);
      await pause(this.answered < WARM_AFTER ? READ_MS : WARM_READ_MS);
    }
  }

  /** A machine whose serve is being restarted does not answer: a proxy asks the other one. */
  async #read(url: string, apiKey: string): Promise<void> {
    try {
      const response = await fetch(url, { headers: { authorization: `Bearer ${apiKey}` } });
      const text = await response.text();
      this.answered += 1;
      if (response.status >= 500) this.failed.push(`${response.status} ${url}: ${text}`);
    } catch {
      return;
    }
  }
}

/** How many rows of each table the further migration has changed. */
export async function countChanged({ cluster }: Ground<Database>): Promise<number[]> {
  const sql = cluster.sql();
  const counts: number[] = [];
  for (const table of ['subscriptions', 'payments', 'payment_attempts', 'events']) {
    const [row] = await stubborn(
      () =>
        sql<
          { count: number }[]
        >`select count(*)::int as count from ${sql(table)} where kind_of_next = 'other'`,
    );
    counts.push(row?.count ?? 0);
  }
  return counts;
}
