import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { failureMeanings } from '../webhooks/errors.ts';
import type { Answer } from '../webhooks/http.ts';

export type DispatchMetrics = ReturnType<typeof createMetrics>;

/**
 * Registers the dispatcher's metrics. `inFlight` returns the number of requests in flight,
 * `waiting` the number of unwritten outcomes. Both functions are called at each scrape.
 */
export function createMetrics(
  registry: Registry,
  { inFlight, waiting }: { inFlight: () => number; waiting: () => number },
) {
  const registers = [registry];
  gauge(registry, 'billing_webhook_in_flight', 'Webhook requests in flight', inFlight);
  gauge(registry, 'billing_webhook_outcomes_waiting', 'Outcomes that are not written yet', waiting);
  const metrics = {
    countAttempt: attemptCounter(registry),
    due: new Gauge({
      name: 'billing_webhook_due',
      help: 'Deliveries that are due now (counted up to 100,000)',
      registers,
    }),
    oldestDueSeconds: new Gauge({
      name: 'billing_webhook_oldest_due_seconds',
      help: 'How long the oldest due delivery has been due',
      registers,
    }),
    queueOldest: new Gauge({
      name: 'billing_queue_oldest_seconds',
      help: 'Seconds for which the oldest row of a queue has been due, by queue: e-mails that a dispatcher sends',
      labelNames: ['queue'],
      registers,
    }),
    claimsLost: new Counter({
      name: 'billing_webhook_stale_outcomes_total',
      help: 'Outcomes that were not written because another dispatcher had claimed the delivery',
      registers,
    }),
    monthsDropped: new Counter({
      name: 'billing_webhook_months_dropped_total',
      help: 'Monthly partitions dropped because they are older than is kept',
      labelNames: ['table'],
      registers,
    }),
    monthsLocked: new Counter({
      name: 'billing_webhook_months_locked_total',
      help: 'Times that monthly partitions were not made or dropped because another session kept a lock (a dump)',
      registers,
    }),
    defaultRows: new Gauge({
      name: 'billing_default_partition_rows',
      help: '1 while the DEFAULT partition of the table holds a row: its month was not made in time',
      labelNames: ['table'],
      registers,
    }),
  };
  metrics.queueOldest.set({ queue: 'mails' }, 0);
  for (const table of ['deliveries', 'events']) metrics.monthsDropped.inc({ table }, 0);
  return metrics;
}

/**
 * Creates a function that counts a webhook request by its outcome (delivered, retried, failed or
 * cancelled) and by its response.
 */
function attemptCounter(registry: Registry) {
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
  // Each counter starts at 0. If a counter first appeared with the value 1, Prometheus would not
  // see its first increase.
  attempts.inc({ outcome: 'delivered', answer: '2xx' }, 0);
  for (const outcome of ['retried', 'failed']) {
    for (const answer of ['3xx', '4xx', '5xx', ...Object.keys(failureMeanings)])
      attempts.inc({ outcome, answer }, 0);
  }
  // Counters are cached by one string key, because prom-client's own look-up checks, sorts and
  // joins the labels on every call.
  const counters = new Map<string, Counter.Internal>();
  return (outcome: string, { httpStatus, error, durationMs }: Answer) => {
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
