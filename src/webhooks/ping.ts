// Sends one signed `ping` or sample event immediately, with the same client as deliveries.
import { randomUUID } from 'node:crypto';
import { WebhookClient } from './http.ts';
import { signedHeaders, signingKeys } from './sign.ts';
import { createSsrfGuard, guardOptions, type GuardConfig } from './ssrf-guard.ts';

export interface Ping {
  config: GuardConfig;
  appId: string;
  webhookId: string;
  url: string;
  /** The endpoint's secret, in the form whsec_<base64>. */
  secret: string;
  /**
   * The previous secret, if a secret rotation is in progress and the previous secret also signs.
   */
  previousSecret?: string | undefined;
  /** The merchant's own headers: name, value, name, value. */
  headers?: string[];
  /**
   * Timestamp for the headers in Unix ms. Use the database's clock if available, as deliveries do.
   */
  now?: number;
  /** The event to send. Without an event, a ping is sent. */
  event?: { id: string; body: string };
}

export interface PingResult {
  /** HTTP status; null when no response arrived. */
  status: number | null;
  durationMs: number;
  /** The error code that explains a missing response (errors.ts); null when a response arrived. */
  error: string | null;
  /** The first 4 KiB of the response body as text. Invalid UTF-8 is replaced. */
  response: string | null;
}

/**
 * Sends a test event and waits up to 5 s for the response. A failure of the endpoint is returned as
 * a result, not thrown.
 */
export async function sendPing({
  config,
  appId,
  webhookId,
  url,
  secret,
  previousSecret,
  headers: own = [],
  now = Date.now(),
  event = pingEvent(appId, webhookId),
}: Ping): Promise<PingResult> {
  const { origin, pathname, search } = new URL(url);
  const client = new WebhookClient(createSsrfGuard(guardOptions(config)), {
    proxy: config.webhookProxy,
  });
  const signed = signedHeaders(
    [signingKeys(secret), previousSecret === undefined ? undefined : signingKeys(previousSecret)],
    event.id,
    Math.floor(now / 1000),
    event.body,
  );
  const path = `${pathname}${search}`;
  const headers = [...signed, ...own];
  const answer = await client.post({ origin, path, headers, body: event.body });
  client.close();
  const { httpStatus, durationMs, error, response } = answer;
  return { status: httpStatus, durationMs, error, response: response?.toString('utf8') ?? null };
}

function pingEvent(appId: string, webhookId: string): { id: string; body: string } {
  const id = randomUUID();
  return {
    id,
    body: JSON.stringify({ id, type: 'ping', createdAt: new Date(), data: { appId, webhookId } }),
  };
}
