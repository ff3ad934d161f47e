// The dispatcher's metrics.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { PartitionedTable } from '../db/partitions.ts';
import { failureMeanings } from '../webhooks/errors.ts';
import type { Answer } from '../webhooks/http.ts';

export type AttemptOutcome = 'delivered' | 'retried' | 'failed' | 'cancelled';

export interface DispatchMetrics {
  attempt(outcome: AttemptOutcome, answer: Answer): void;
  /** Deliveries that are due and the age of the oldest, in milliseconds. */
  queue(due: number, oldestMs: number): void;
  /** Outcomes whose claim was lost. */
  claimsLost(count: number): void;
  /** A month of this table was dropped. */
  dropped(table: PartitionedTable): void;
  /** Partitions could not be created or dropped because another session held a lock. */
  monthLocked(): void;
  /** Whether the DEFAULT partition of each table holds a row. */
  defaultRows(tables: Readonly<Record<string, boolean>>): void;
}

/** `inFlight` and `waiting` (outcomes not yet written) are read at each scrape. */
export function createMetrics(
  registry: Registry,
  { inFlight, waiting }: { inFlight: () => number; waiting: () => number },
): DispatchMetrics {
  const registers = [registry];
  gauge(registry, 'billing_webhook_in_flight', 'Webhook requests in flight', inFlight);
  gauge(registry, 'billing_webhook_outcomes_waiting', 'Outcomes that are not written yet', waiting);
  const due = new Gauge({
    name: 'billing_webhook_due',
    help: 'Deliveries that are due now (counted up to 100,000)',
    registers,
  });
  const oldest = new Gauge({
    name: 'billing_webhook_oldest_due_seconds',
    help: 'How long the oldest due delivery has been due',
    registers,
  });
  const stale = new Counter({
    name: 'billing_webhook_stale_outcomes_total',
    help: 'Outcomes that were not written because another dispatcher had claimed the delivery',
    registers,
  });
  const dropped = new Counter({
    name: 'billing_webhook_months_dropped_total',
    help: 'Monthly partitions dropped because they are older than is kept',
    labelNames: ['table'] as const,
    registers,
  });
  const locked = new Counter({
    name: 'billing_webhook_months_locked_total',
    help: 'Times that monthly partitions were not made or dropped because another session kept a lock (a dump)',
    registers,
  });
  const defaults = new Gauge({
    name: 'billing_default_partition_rows',
    help: '1 while the DEFAULT partition of the table holds a row: its month was not made in time',
    labelNames: ['table'] as const,
    registers,
  });
  for (const table of ['deliveries', 'events']) dropped.inc({ table }, 0);
  return {
    attempt: countAttempts(registry),
    queue(count, oldestMs) {
      due.set(count);
      oldest.set(oldestMs / 1000);
    },
    claimsLost(count) {
      if (count > 0) stale.inc(count);
    },
    dropped(table) {
      dropped.inc({ table });
    },
    monthLocked() {
      locked.inc();
    },
    defaultRows(tables) {
      for (const [table, holds] of Object.entries(tables)) defaults.set({ table }, holds ? 1 : 0);
    },
  };
}

function countAttempts(registry: Registry): DispatchMetrics['attempt'] {
  const registers = [registry];
  const attempts = new Counter({
    name: 'billing_webhook_attempts_total',
    help: 'Webhook requests by what followed and by HTTP status class or class of error',
    labelNames: ['outcome', 'answer'] as const,
    registers,
  });
  const seconds = new Histogram({
    name: 'billing_webhook_attempt_seconds',
    help: 'Duration of webhook requests',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 6],
    registers,
  });
  // Starts at 0: Prometheus sees no increase in a counter that appears with its first event.
  attempts.inc({ outcome: 'delivered', answer: '2xx' }, 0);
  for (const outcome of ['retried', 'failed']) {
    for (const answer of ['3xx', '4xx', '5xx', ...Object.keys(failureMeanings)])
      attempts.inc({ outcome, answer }, 0);
  }
  // Cached by one string, because prom-client's own look-up checks, sorts and joins the labels each time.
  const counters = new Map<string, Counter.Internal>();
  return (outcome, { httpStatus, error, durationMs }) => {
    const answer = httpStatus === null ? (error ?? 'error') : `${Math.floor(httpStatus / 100)}xx`;
    const key = `${outcome} ${answer}`;
    let counter = counters.get(key);
    if (counter === undefined) counters.set(key, (counter = attempts.labels(outcome, answer)));
    counter.inc();
    seconds.observe(durationMs / 1000);
  };
}

function gauge(registry: Registry, name: string, help: string, read: () => number): void {
  new Gauge({
    name,
    help,
    registers: [registry],
    collect() {
      this.set(read());
    },
  });
}
