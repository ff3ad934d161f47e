// The merchants' webhook server. The server follows docs/contract.md: it compares the signature
// over the raw body in constant time, tolerates timestamps up to 300 s off, and deduplicates events
// by id.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { messageOf } from '../../errors.ts';

export interface ReceivedEvent {
  id: string;
  type: string;
  /** The raw body of the webhook request. */
  body: string;
}

export interface MerchantServer {
  /** Returns the URL of the webhook endpoint of a merchant. `merchant` is the merchant's index. */
  urlFor(merchant: number): string;
  /**
   * Stores the signing secret of a merchant's webhook endpoint. The API shows this secret only
   * once, when the endpoint is registered.
   */
  setSecret(merchant: number, secret: string): void;
  /** Makes the merchant's endpoint respond with status 503 while `failing` is true. */
  setFailing(merchant: number, failing: boolean): void;
  /**
   * Makes GET `path` redirect to `url`. Returns the URL of `path`. `url` contains the keys of the
   * demo wallets, so it is too long for a terminal. The URL of `path` is short.
   */
  leadTo(path: string, url: string): string;
  /**
   * Makes the merchant's endpoint respond with status 410. A 410 fails a delivery without a retry.
   */
  setGone(merchant: number, gone: boolean): void;
  /**
   * Runs `act` for GET requests to `path` and redirects to the URL that `act` returns. Returns the
   * URL of `path`.
   */
  actOn(path: string, act: (query: URLSearchParams) => Promise<string>): string;
  /** The received events by event id, in the order in which they first arrived. */
  events: ReadonlyMap<string, ReceivedEvent>;
  /** Number of webhook requests with a wrong signature or a timestamp beyond the tolerance. */
  refused(): number;
  /** Number of webhook requests that got a 503 because of setFailing(). */
  failedOnPurpose(): number;
  /**
   * Number of repeated deliveries whose body differed from the first delivery of the same event.
   * With a correct service this number is 0.
   */
  altered(): number;
  onEvent(listener: (event: ReceivedEvent) => void): void;
  close(): Promise<void>;
}

const TOLERANCE_SECONDS = 300;

/** Receives webhook requests as a merchant's server does. */
function createReceiver() {
  const secrets = new Map<number, string>();
  const failing = new Set<number>();
  const gone = new Set<number>();
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
    if (gone.has(merchant)) return 410;
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
  const setIn = (merchants: Set<number>) => (merchant: number, isIn: boolean) => {
    if (isIn) merchants.add(merchant);
    else merchants.delete(merchant);
  };
  return {
    receive,
    setSecret(merchant: number, secret: string) {
      secrets.set(merchant, secret);
    },
    setFailing: setIn(failing),
    setGone: setIn(gone),
    events,
    refused: () => refused,
    failedOnPurpose: () => failedOnPurpose,
    altered: () => altered,
    onEvent(listener: (event: ReceivedEvent) => void) {
      listeners.push(listener);
    },
  };
}

/** Starts the webhook server on 127.0.0.1. */
export async function startMerchantServer(): Promise<MerchantServer> {
  const { receive, ...receiver } = createReceiver();
  const pages = new Map<string, string>();
  const actions = new Map<string, (query: URLSearchParams) => Promise<string>>();
  const server = createServer((request, response) => {
    const location = pages.get(request.url ?? '');
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://127.0.0.1');
    const action = actions.get(pathname);
    if (location !== undefined) response.writeHead(302, { location }).end();
    else if (action !== undefined)
      action(searchParams).then(
        (next) => response.writeHead(302, { location: next }).end(),
        (error: unknown) => response.writeHead(500).end(messageOf(error)),
      );
    else
      receive(request).then(
        (status) => response.writeHead(status).end(),
        () => response.writeHead(400).end(),
      );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const urlOf = (path: string) => `http://127.0.0.1:${port}${path}`;
  return {
    ...receiver,
    urlFor: (merchant) => urlOf(`/hooks/${merchant}`),
    leadTo(path, url) {
      pages.set(path, url);
      return urlOf(path);
    },
    actOn(path, act) {
      actions.set(path, act);
      return urlOf(path);
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
  const signature = Buffer.from(String(request.headers['x-service-signature'] ?? ''));
  if (
    secret === undefined ||
    !/^\d+$/.test(timestamp) ||
    Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_SECONDS
  )
    return false;
  const expected = Buffer.from(
    `sha256=${createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')}`,
  );
  return signature.length === expected.length && timingSafeEqual(signature, expected);
}
