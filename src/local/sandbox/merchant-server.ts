// The merchants' webhook server. It follows docs/contract.md: it compares the signature over the
// raw body in constant time, tolerates timestamps up to 300 s off, and deduplicates events by id.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';

export interface ReceivedEvent {
  id: string;
  type: string;
  /** The raw body of the request. */
  body: string;
}

export interface MerchantServer {
  /** Returns the URL of a merchant's webhook endpoint. */
  urlFor(merchant: number): string;
  /** Sets the secret of a merchant's webhook endpoint. The API shows the secret only once. */
  setSecret(merchant: number, secret: string): void;
  /** While `failing` is true, the merchant's endpoint responds with 503. */
  setFailing(merchant: number, failing: boolean): void;
  /** The received events by id, in the order of their first request. */
  events: ReadonlyMap<string, ReceivedEvent>;
  /** Number of requests with a wrong signature or a timestamp beyond the tolerance. */
  refused(): number;
  /** Number of requests that got a 503. */
  failedOnPurpose(): number;
  /** Number of times an event was delivered again with another body. It must stay 0. */
  altered(): number;
  onEvent(listener: (event: ReceivedEvent) => void): void;
  close(): Promise<void>;
}

const TOLERANCE_SECONDS = 300;

/** Starts the webhook server on 127.0.0.1. */
export async function startMerchantServer(): Promise<MerchantServer> {
  const secrets = new Map<number, string>();
  const failing = new Set<number>();
  const events = new Map<string, ReceivedEvent>();
  const listeners: ((event: ReceivedEvent) => void)[] = [];
  let [refused, failedOnPurpose, altered] = [0, 0, 0];

  const receive = async (request: IncomingMessage): Promise<number> => {
    const body = await readBody(request);
    const merchant = Number(request.url?.split('/').at(-1));
    if (!verifies(request, body, secrets.get(merchant))) {
      refused += 1;
      return 401;
    }
    if (failing.has(merchant)) {
      failedOnPurpose += 1;
      return 503;
    }
    const text = body.toString('utf8');
    const { id, type } = JSON.parse(text) as { id: string; type: string };
    const before = events.get(id);
    if (before === undefined) {
      const event = { id, type, body: text };
      events.set(id, event);
      for (const listener of listeners) listener(event);
    } else if (before.body !== text) altered += 1;
    return 204;
  };

  const server = createServer((request, response) => {
    receive(request).then(
      (status) => response.writeHead(status).end(),
      () => response.writeHead(400).end(),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;

  return {
    urlFor: (merchant) => `http://127.0.0.1:${port}/hooks/${merchant}`,
    setSecret(merchant, secret) {
      secrets.set(merchant, secret);
    },
    setFailing(merchant, on) {
      if (on) failing.add(merchant);
      else failing.delete(merchant);
    },
    events,
    refused: () => refused,
    failedOnPurpose: () => failedOnPurpose,
    altered: () => altered,
    onEvent(listener) {
      listeners.push(listener);
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function verifies(request: IncomingMessage, body: Buffer, secret: string | undefined): boolean {
  const timestamp = String(request.headers['x-service-timestamp'] ?? '');
  const given = Buffer.from(String(request.headers['x-service-signature'] ?? ''));
  if (
    secret === undefined ||
    !/^\d+$/.test(timestamp) ||
    Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS
  )
    return false;
  const expected = Buffer.from(
    `sha256=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`,
  );
  return given.length === expected.length && timingSafeEqual(given, expected);
}
