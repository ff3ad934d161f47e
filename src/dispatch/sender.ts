// One claimed delivery from signature to outcome.
import type { DueDelivery, Outcome } from '../db/deliveries.ts';
import { judge, parseRetryAfter } from '../domain/retry-schedule.ts';
import type { DatabaseClock } from './clock.ts';
import type { Connections } from './connections.ts';
import type { Deadlines } from './deadlines.ts';
import type { Lanes, Start } from './lanes.ts';
import type { DispatchMetrics } from './metrics.ts';
import { post, type Answer } from './post.ts';
import type { Recorder } from './recorder.ts';
import { signedHeaders } from './sign.ts';
import type { SendingTarget } from './targets.ts';

export interface Sender {
  /** Sends at once; the outcome goes to the recorder. */
  send(start: Start, target: SendingTarget): void;
  /** Resolves when no request is in flight. */
  drained(): Promise<void>;
}

export interface SenderParts {
  connections: Connections;
  deadlines: Deadlines;
  clock: DatabaseClock;
  lanes: Lanes;
  recorder: Recorder;
  metrics: DispatchMetrics;
  /** A place has become free. */
  onFree: () => void;
}

export function createSender({ connections, deadlines, clock, lanes, recorder, metrics, onFree }: SenderParts): Sender {
  let inFlight = 0;
  let onDrained: (() => void) | undefined;

  return {
    send({ delivery, claimId, place }, target) {
      inFlight += 1;
      const startedAt = Math.ceil(clock.now());
      const headers = signedHeaders(target.keys, delivery.eventId, Math.floor(startedAt / 1000), delivery.body);
      post({ connections, deadlines }, target, headers, delivery.body, (answer) => {
        const outcome = outcomeOf(delivery, claimId, startedAt, answer);
        recorder.add(outcome);
        metrics.attempt(outcome.status === 'pending' ? 'retried' : outcome.status, answer);
        lanes.free(place, outcome.status === 'delivered' ? 'good' : 'bad');
        inFlight -= 1;
        if (inFlight === 0) onDrained?.();
        onFree();
      });
    },
    drained() {
      return new Promise((resolve) => {
        if (inFlight === 0) resolve();
        else onDrained = resolve;
      });
    },
  };
}

function outcomeOf({ id, endpointId, attempts }: DueDelivery, claimId: string, startedAt: number, answer: Answer): Outcome {
  const { httpStatus, error, response, address, durationMs, retryAfter } = answer;
  const endedAt = startedAt + durationMs;
  const verdict = judge(attempts + 1, httpStatus, parseRetryAfter(retryAfter, endedAt));
  return {
    id,
    endpointId,
    claimId,
    attempts,
    status: verdict.status,
    dueAt: verdict.status === 'pending' ? endedAt + verdict.delayMs : null,
    attempt: { startedAt, durationMs, httpStatus, error, response, address },
  };
}
