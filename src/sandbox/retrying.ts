import pRetry from 'p-retry';

/** Asks Postgres until it answers, 20 s at most: the chaos kills it now and then, and a pool notices on the next query only. */
export function retrying<T>(ask: () => Promise<T>): Promise<T> {
  return pRetry(ask, { retries: 200, factor: 1, minTimeout: 100, maxRetryTime: 20_000 });
}
