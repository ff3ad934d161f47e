// One signed `ping`, or another event, sent at once: what the API's test of an endpoint does. It goes through the same code as every delivery.
import { randomUUID } from 'node:crypto';
import type { Config } from '../config.ts';
import { createConnections } from './connections.ts';
import { createDeadlines } from './deadlines.ts';
import { createGuard } from './guard.ts';
import { deadlineMs, post, type Answer } from './post.ts';
import { signedHeaders, signingKeys } from './sign.ts';

export interface Ping {
  config: Pick<Config, 'webhookGuard' | 'webhookAllowCidrs' | 'webhookNameServers'>;
  appId: string;
  webhookId: string;
  url: string;
  /** whsec_<base64> */
  secret: string;
  /** What is sent; a ping when absent. */
  event?: { id: string; body: string };
}

export interface PingResult {
  /** HTTP status; null when there was no answer. */
  status: number | null;
  durationMs: number;
  /** Why there was no answer (failure.ts); null when there was one. */
  error: string | null;
  /** The start of the answer's body as text, at most 4 KiB; bytes that are no UTF-8 are replaced. */
  response: string | null;
}

/** Sends it and waits for the answer, 5 s at the most. Never throws for what the endpoint does. */
export async function sendPing({ config, appId, webhookId, url, secret, event = pingEvent(appId, webhookId) }: Ping): Promise<PingResult> {
  const { origin, pathname, search } = new URL(url);
  const guard = createGuard({ enabled: config.webhookGuard, allow: config.webhookAllowCidrs, nameServers: config.webhookNameServers });
  const connections = createConnections(guard, deadlineMs);
  const body = Buffer.from(event.body);
  const headers = signedHeaders(signingKeys(secret), event.id, Math.floor(Date.now() / 1000), body);
  const target = { origin, path: `${pathname}${search}` };
  const answer = await new Promise<Answer>((resolve) =>
    post({ connections, deadlines: createDeadlines(deadlineMs) }, target, headers, body, resolve),
  );
  connections.close();
  const { httpStatus, durationMs, error, response } = answer;
  return { status: httpStatus, durationMs, error, response: response?.toString('utf8') ?? null };
}

function pingEvent(appId: string, webhookId: string): { id: string; body: string } {
  const id = randomUUID();
  return { id, body: JSON.stringify({ id, type: 'ping', createdAt: new Date(), data: { appId, webhookId } }) };
}
