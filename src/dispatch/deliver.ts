// Sends one claimed delivery: signs the request, posts it and evaluates the response.
import type { Outcome } from '../db/delivering/delivery-queue.ts';
import { judge, parseRetryAfter } from '../domain/outbox/retry-schedule.ts';
import { ownTraceparent } from '../trace.ts';
import type { Answer, WebhookClient } from '../webhooks/http.ts';
import { signedHeaders } from '../webhooks/sign.ts';
import type { DatabaseClock } from './clock.ts';
import type { Ready } from './concurrency.ts';

export interface Delivered {
  outcome: Outcome;
  answer: Answer;
}

/**
 * Makes one attempt. Each attempt has its own signature with the database's time. Never rejects.
 */
export async function deliver(
  { id, endpointId, claimId, eventId, attempts, body, traceparent, endpoint }: Ready,
  { client, clock }: { client: WebhookClient; clock: DatabaseClock },
): Promise<Delivered> {
  const { origin, path, keys, previous, headers: own } = endpoint;
  const startedAt = Math.ceil(clock.now());
  const previousKeys =
    previous !== undefined && startedAt < previous.until ? previous.keys : undefined;
  const at = Math.floor(startedAt / 1000);
  const signed = signedHeaders([keys, previousKeys], eventId, at, body);
  const headers = [...signed, 'traceparent', traceparent ?? ownTraceparent(eventId), ...own];
  const answer = await client.post({ origin, path, headers, body });
  const { httpStatus, error, response, address, durationMs, retryAfter } = answer;
  const endedAt = startedAt + durationMs;
  const verdict = judge(attempts + 1, httpStatus, parseRetryAfter(retryAfter, endedAt));
  const outcome = {
    id,
    endpointId,
    claimId,
    status: verdict.status,
    dueAt: verdict.status === 'pending' ? endedAt + verdict.delayMs : null,
    attempt: { startedAt, durationMs, httpStatus, error, response, address },
  };
  return { outcome, answer };
}
