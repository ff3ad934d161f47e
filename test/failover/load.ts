// The load of a scenario: subscriptions fall due all the time, each once in a round, and merchants
// create checkout sessions.
import { setTimeout as pause } from 'node:timers/promises';
import { SUBSCRIPTIONS_DUE } from '../../src/db/postgres/notify.ts';
import type { Database } from './cluster.ts';
import { type Ground, KINDS, type Kind, stepSeconds } from './ground.ts';

const WRITE_MS = 150;
const REQUEST_MS = 3000;
const LOOK_MS = 200;
/** This share of the subscriptions may be due and not in the books. */
const MOST_OPEN = 0.75;
/** After this time some of a round's payments are on their way. */
const UNDER_WAY_MS = 700;

const now = () => performance.now();
const seconds = (ms: number) => ms / 1000;

/** Asks until there is an answer. A server that is stopped or frozen may not answer at all. */
export async function stubborn<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    const answer = await Promise.race([
      ask().then(
        (value) => ({ value }),
        () => undefined,
      ),
      pause(REQUEST_MS, undefined),
    ]);
    if (answer !== undefined) return answer.value;
    await pause(LOOK_MS);
  }
}

/** Different periods in the books, of those that began until then. */
async function paidPeriods(
  { cluster, merchants }: Ground<Database>,
  until: bigint | 'infinity' = 'infinity',
): Promise<number> {
  const latest = until === 'infinity' ? until : new Date(Number(until) * 1000).toISOString();
  const [row] = await cluster.sql()<[{ count: number }]>`
    select count(distinct (subscription_id, period_start))::int as count from payments
    where status = 'succeeded' and period_start <= ${latest}::text::timestamptz
      and app_id in ${cluster.sql()(merchants.map(({ appId }) => appId))}`;
  return row.count;
}

/**
 * Payments that fall due all the time, `rate` a second. In a round each subscription falls due
 * once, a group of them after the other. A round takes seconds of a month, and a period that passes
 * unpaid is not collected. So chain time stands still while too many payments are not in the books,
 * and before a group falls due again until its last payments are.
 */
export class Rounds {
  readonly #ground: Ground<Database>;
  readonly #stepMs: number;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #failure: { error: unknown } | undefined;
  /** Number of rounds. The first round is the registrations. */
  rounds = 1;
  /** Durations of the later rounds. */
  readonly #seconds: number[] = [];
  /** Payments that fell due until now. */
  #due: number;
  /** Payments in the books when they were last counted. */
  #paid = 0;

  constructor(ground: Ground<Database>, rate: number) {
    this.#ground = ground;
    this.#due = ground.subscribers;
    this.#stepMs = ((ground.subscribers / rate) * 1000) / ground.groups;
  }

  start(): void {
    this.#running = this.#run();
    this.#running.catch((error: unknown) => (this.#failure = { error }));
  }

  /** Resolves when a further round is under way. */
  async underWay(): Promise<void> {
    const { rounds } = this;
    while (this.rounds === rounds) {
      if (this.#failure !== undefined) throw this.#failure.error;
      await pause(10);
    }
    await pause(UNDER_WAY_MS);
  }

  /** How many payments are due until which time on the chain. */
  async due(): Promise<{ count: number; at: bigint }> {
    return { count: this.#due, at: await this.#ground.chain.now() };
  }

  /** Resolves when so many payments are in the books. */
  async caughtUp({ count, at }: { count: number; at: bigint }): Promise<void> {
    while ((await stubborn(() => paidPeriods(this.#ground, at))) < count) await pause(LOOK_MS);
  }

  /** Payments a second in the first and the last round, which the fault does not touch. */
  rate(): number {
    const took = (this.#seconds[0] ?? 0) + (this.#seconds.at(-1) ?? 0);
    return (2 * this.#ground.subscribers) / took;
  }

  /** Resolves when the payments of the current round are in the books; none follows. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { subscribers, groups } = this.#ground;
    await this.#atMostOpen(0);
    /** What was due after the last step of each group. */
    const lastDue: { count: number; at: bigint }[] = [];
    while (!this.#stopping.signal.aborted) {
      const beganAt = now();
      this.rounds += 1;
      for (let group = 1; group <= groups; group += 1) {
        const steppedAt = now();
        const before = lastDue[group];
        if (before !== undefined) await this.caughtUp(before);
        const at = await this.#step();
        this.#due = subscribers * (this.rounds - 1) + Math.floor((subscribers * group) / groups);
        lastDue[group] = { count: this.#due, at };
        await this.#atMostOpen(Math.floor(subscribers * MOST_OPEN));
        await pause(Math.max(0, steppedAt + this.#stepMs - now()));
      }
      this.#seconds.push(seconds(now() - beganAt));
    }
    await this.#atMostOpen(0);
  }

  /** The next group falls due. Resolves with the chain's time. */
  async #step(): Promise<bigint> {
    const { chain, cluster, groups } = this.#ground;
    const next = (await stubborn(() => chain.now())) + stepSeconds(groups);
    await stubborn(() => chain.travelTo(next));
    await stubborn(() => cluster.sql().notify(SUBSCRIPTIONS_DUE, ''));
    return next;
  }

  async #atMostOpen(most: number): Promise<void> {
    while (this.#due - this.#paid > most) {
      this.#paid = await stubborn(() => paidPeriods(this.#ground));
      if (this.#due - this.#paid > most) await pause(LOOK_MS / 2);
    }
  }
}

/** Creates checkout sessions, at one machine or else at the other, as behind a proxy. */
export class Writer {
  readonly #ground: Ground<Database>;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  /** Sessions that were answered with 201. */
  readonly acknowledged: string[] = [];
  /** Requests that both machines refused. */
  refused = 0;
  /** The last answer of another status than 201, or the last error without an answer. */
  refusal = '';
  /** Answers of 500 and above. */
  serverErrors = 0;
  /** Longest time between two acknowledged requests. */
  longestGapMs = 0;

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
    const { machines } = this.#ground;
    let lastAt = now();
    for (let n = 0; !this.#stopping.signal.aborted; n += 1) {
      const first = machines[n % 2] as (typeof machines)[0];
      const second = machines[(n + 1) % 2] as (typeof machines)[0];
      const id = (await this.#create(first.apiUrl, n)) ?? (await this.#create(second.apiUrl, n));
      if (id === undefined) this.refused += 1;
      else {
        this.acknowledged.push(id);
        this.longestGapMs = Math.max(this.longestGapMs, now() - lastAt);
        lastAt = now();
      }
      await pause(WRITE_MS);
    }
  }

  /** The session's id, or undefined when it was not acknowledged. */
  async #create(apiUrl: string, n: number): Promise<string | undefined> {
    const { merchants } = this.#ground;
    const { appId, planId, apiKey } = merchants[n % merchants.length] as (typeof merchants)[0];
    try {
      const response = await fetch(`${apiUrl}/merchant/apps/${appId}/checkout-sessions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ planId }),
        signal: AbortSignal.timeout(REQUEST_MS),
      });
      if (response.status >= 500) this.serverErrors += 1;
      const body = (await response.json()) as { data?: { id: string } };
      if (response.status === 201) return body.data?.id;
      this.refusal = `${response.status} ${JSON.stringify(body)}`;
    } catch (error) {
      this.refusal = `${String(error)} (${String((error as Error).cause)})`;
    }
    return undefined;
  }
}

/** Watches which kinds of daemon have a ready process. */
export class Readiness {
  readonly #ground: Ground<Database>;
  readonly #stopping = new AbortController();
  #running: Promise<unknown> = Promise.resolve();
  readonly #unreadyAt = new Map<Kind, number>();

  constructor(ground: Ground<Database>) {
    this.#ground = ground;
  }

  start(): void {
    this.#running = Promise.all(KINDS.map((kind) => this.#watch(kind)));
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** Seconds from `at` until each kind had a ready process again for good. */
  secondsSince(at: number): number {
    return seconds(Math.max(0, ...[...this.#unreadyAt.values()].map((last) => last - at)));
  }

  async #watch(kind: Kind): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const answers = this.#ground.machines.map(({ metricsUrls }) =>
        fetch(`${metricsUrls[kind]}/readyz`, { signal: AbortSignal.timeout(REQUEST_MS) }).then(
          async (response) => {
            await response.body?.cancel();
            return response.ok;
          },
          () => false,
        ),
      );
      if (!(await Promise.all(answers)).includes(true)) this.#unreadyAt.set(kind, now());
      await pause(LOOK_MS);
    }
  }
}
