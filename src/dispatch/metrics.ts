// What Prometheus sees of the dispatcher.
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { FAILURES } from './failure.ts';
import type { Answer } from './post.ts';

export type AttemptOutcome = 'delivered' | 'retried' | 'failed' | 'cancelled';

export interface DispatchMetrics {
  attempt(outcome: AttemptOutcome, answer: Answer): void;
  /** Deliveries that are due and the age of the oldest, in milliseconds. */
  queue(due: number, oldestMs: number): void;
  staleOutcomes(count: number): void;
  purged(table: 'deliveries' | 'events', count: number): void;
}

/** `inFlight` and `waiting` (outcomes not yet written) are read at each scrape. */
export function createMetrics(
  registry: Registry,
  { inFlight, waiting }: { inFlight: () => number; waiting: () => number },
): DispatchMetrics {
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
  const due = new Gauge({ name: 'billing_webhook_due', help: 'Deliveries that are due now (counted up to 100,000)', registers });
  const oldest = new Gauge({
    name: 'billing_webhook_oldest_due_seconds',
    help: 'How long the oldest due delivery has been due',
    registers,
  });
  const stale = new Counter({
    name: 'billing_webhook_stale_outcomes_total',
    help: 'Outcomes that came after their lease was taken over and were not written',
    registers,
  });
  const purged = new Counter({
    name: 'billing_webhook_purged_total',
    help: 'Rows deleted because they are older than is kept',
    labelNames: ['table'] as const,
    registers,
  });
  // From 0 on: of a counter that appears with its first event Prometheus sees no increase.
  attempts.inc({ outcome: 'delivered', answer: '2xx' }, 0);
  for (const outcome of ['retried', 'failed']) {
    for (const answer of ['3xx', '4xx', '5xx', ...FAILURES]) attempts.inc({ outcome, answer }, 0);
  }
  for (const table of ['deliveries', 'events']) purged.inc({ table }, 0);
  new Gauge({
    name: 'billing_webhook_in_flight',
    help: 'Webhook requests in flight',
    registers,
    collect() {
      this.set(inFlight());
    },
  });
  new Gauge({
    name: 'billing_webhook_outcomes_waiting',
    help: 'Outcomes that are not written yet',
    registers,
    collect() {
      this.set(waiting());
    },
  });
  // Found by one string: prom-client's own search checks, sorts and joins the labels each time.
  const counters = new Map<string, Counter.Internal>();

  return {
    attempt(outcome, { httpStatus, error, durationMs }) {
      const answer = httpStatus === null ? (error ?? 'error') : `${Math.floor(httpStatus / 100)}xx`;
      const key = `${outcome} ${answer}`;
      let counter = counters.get(key);
      if (counter === undefined) counters.set(key, (counter = attempts.labels(outcome, answer)));
      counter.inc();
      seconds.observe(durationMs / 1000);
    },
    queue(count, oldestMs) {
      due.set(count);
      oldest.set(oldestMs / 1000);
    },
    staleOutcomes(count) {
      if (count > 0) stale.inc(count);
    },
    purged(table, count) {
      purged.inc({ table }, count);
    },
  };
}
