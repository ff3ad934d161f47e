// Requests to the API about deliveries: filters, replays, and waiting at the rate limit.
import { setTimeout as pause } from 'node:timers/promises';
import type { LogQuery } from '../../domain/outbox/delivery-log.ts';
import { Interrupted, OperatorError } from '../../errors.ts';
import { type ApiClient, ApiRefusal } from '../develop/api-client.ts';
import type { Progress } from '../terminal/progress.ts';

/** A delivery in the responses of the API. */
export interface Delivery {
  id: string;
  webhookId: string;
  eventId: string;
  eventType: string;
  status: string;
  attempts: number;
  nextAttemptAt: string | null;
  replayOf: string | null;
  createdAt: string;
  finishedAt: string | null;
}

export interface Work {
  signal: AbortSignal;
  progress: Pick<Progress, 'update'>;
}

/**
 * Replays deliveries one by one and returns the ids of the new deliveries. If a request fails, the
 * error names the deliveries that were not replayed.
 */
export async function replayEach(
  client: ApiClient,
  app: string,
  ids: readonly string[],
  { signal, progress }: Work,
): Promise<string[]> {
  const queued: string[] = [];
  for (const [place, id] of ids.entries()) {
    const left = `${place} are queued; left are: ${ids.slice(place).join(' ')}`;
    try {
      const path = `${app}/deliveries/${id}/replay`;
      queued.push((await patiently(signal, () => post<Delivery>(client, path))).id);
    } catch (error) {
      if (signal.aborted) throw Interrupted.by(signal, `Interrupted: ${left}`);
      if (place === 0 || !(error instanceof OperatorError)) throw error;
      throw new OperatorError(`${error.message} ${left}`, error.exitCode, { cause: error });
    }
    progress.update(`${place + 1} of ${ids.length}`);
  }
  return queued;
}

/**
 * Sends a request. While the API responds 429, waits for Retry-After and sends the request again.
 * Throws when `signal` is aborted before the request is sent.
 */
export async function patiently<T>(signal: AbortSignal, request: () => Promise<T>): Promise<T> {
  for (;;) {
    signal.throwIfAborted();
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof ApiRefusal) || error.status !== 429) throw error;
      await pause((error.retryAfter ?? 60) * 1000, undefined, { signal });
    }
  }
}

/**
 * Sends a POST that no signal can abort. After an abort it would be unknown whether the request
 * took effect.
 */
export async function post<T>(client: ApiClient, path: string, body?: object): Promise<T> {
  return (await client.call<T>('POST', path, { body })).data;
}

/** Returns the filters in the form of the API's query parameters and body fields. */
export function filtersOf({
  status,
  type,
  since,
  until,
}: Pick<LogQuery, 'type' | 'since' | 'until'> & { status: string | null }) {
  return {
    ...(status !== null && { status }),
    ...(type !== null && { type }),
    ...(since !== null && { since: since.toISOString() }),
    ...(until !== null && { until: until.toISOString() }),
  };
}
