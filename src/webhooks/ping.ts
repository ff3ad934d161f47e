// Sends one signed `ping` or sample event immediately, through the client that sends deliveries.
import { randomUUID } from 'node:crypto';
import { WebhookClient } from './http.ts';
import { signedHeaders, signingKeys } from './sign.ts';
import { createSsrfGuard, guardOptions, type GuardConfig } from './ssrf-guard.ts';

export interface Ping {
  config: GuardConfig;
  appId: string;
  webhookId: string;
  url: string;
  /** whsec_<base64> */
  secret: string;
  /** The previous secret, while it also signs. */
  previousSecret?: string | undefined;
  /** Timestamp of the headers in Unix ms: the database's clock if available, as for deliveries. */
  now?: number;
  /** The event to send; a ping when absent. */
  event?: { id: string; body: string };
}

export interface PingResult {
  /** HTTP status; null without a response. */
  status: number | null;
  durationMs: number;
  /** The reason why there is no response (errors.ts); null with a response. */
  error: string | null;
  /** The start of the response body as text, at most 4 KiB; invalid UTF-8 is replaced. */
  response: string | null;
}

/**
 * Sends a test event and waits up to 5 s for the response. A failure of the endpoint is a result,
 * not an error.
 */
export async function sendPing({
  config,
  appId,
  webhookId,
  url,
  secret,
  previousSecret,
  now = Date.now(),
  event = pingEvent(appId, webhookId),
}: Ping): Promise<PingResult> {
  const { origin, pathname, search } = new URL(url);
  const client = new WebhookClient(createSsrfGuard(guardOptions(config)));
  const headers = signedHeaders(
    [signingKeys(secret), previousSecret === undefined ? undefined : signingKeys(previousSecret)],
    event.id,
    Math.floor(now / 1000),
    event.body,
  );
  const path = `${pathname}${search}`;
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
