// Repeats requests about a transaction that the wallet has signed. Such a transaction may already
// be on chain, so a busy or unreachable service must not look like a failed payment.
import { BillingConnectionError, BillingError } from '../../client/error.ts';

const [TRIES, PAUSE_MS] = [20, 1500];

/**
 * Whether a repeated request can succeed: the service did not respond, or responded with the status
 * 429 or 5xx.
 */
export const isPassing = (error: unknown): boolean =>
  error instanceof BillingConnectionError ||
  (error instanceof BillingError && (error.status === 429 || error.status >= 500));

/**
 * Repeats a request, up to TRIES times in all, while isPassing() is true for its error. Waits for
 * the time in Retry-After or for PAUSE_MS.
 */
export async function persistently<T>(request: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await request();
    } catch (error) {
      if (!isPassing(error) || tries === TRIES) throw error;
      const seconds = error instanceof BillingError ? error.retryAfter : undefined;
      const ms = seconds === undefined ? PAUSE_MS : seconds * 1000;
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
  }
}
