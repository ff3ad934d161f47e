// A client of the service's REST API. In the sandbox this client replaces a merchant's back end and
// the subscriber pages.
import { OperatorError } from '../../errors.ts';
import type { Wallet } from './wallet.ts';

interface CallOptions {
  token?: string;
  body?: unknown;
  /**
   * IP address of the client, sent as X-Forwarded-For. The service limits sign-ins per IP address,
   * so each wallet has an address of its own.
   */
  from?: string;
}

export interface Api {
  /**
   * Sends a request and returns the `data` of the response. Throws an ApiRefusal with the code and
   * message of an error response. While the server is down, the client repeats the request for up
   * to PATIENCE_MS.
   */
  call<T>(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    options?: CallOptions,
  ): Promise<T>;
  /** Reads all pages of a paginated list and returns the items. */
  list<T>(path: string, token: string): Promise<T[]>;
  /** Signs in with the wallet's signature. Returns the JWT. */
  signIn(wallet: Wallet, role: 'merchant' | 'subscriber'): Promise<string>;
}

/** Thrown when the API responds with an error. */
class ApiRefusal extends Error {
  readonly code: string;
  readonly status: number;

  constructor(status: number, code: string, message: string) {
    super(message);
    this.name = 'ApiRefusal';
    this.status = status;
    this.code = code;
  }
}

interface Envelope {
  success: boolean;
  data: unknown;
  error?: { code: string; message: string };
}

/**
 * Milliseconds for which a request is repeated while the server is down. The sandbox itself kills
 * its servers, and a killed server needs time to start again.
 */
const PATIENCE_MS = 20_000;

/** Sends a request, and repeats it until the server responds or PATIENCE_MS have passed. */
async function send(
  baseUrl: string,
  method: string,
  path: string,
  { token, body, from }: CallOptions = {},
): Promise<{ response: Response; envelope: Envelope }> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    try {
      const response = await fetch(new URL(path, baseUrl), {
        method,
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(from === undefined ? {} : { 'x-forwarded-for': from }),
          ...(method === 'GET' || method === 'DELETE'
            ? {}
            : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      const envelope = (await response.json()) as Envelope;
      // A status other than 429 and 5xx is final. After 429, the delay is in Retry-After. A 5xx
      // means that the database or the chain is temporarily unreachable.
      if ((response.status !== 429 && response.status < 500) || Date.now() > deadline)
        return { response, envelope };
      await pause(Number(response.headers.get('retry-after') ?? 0.2) * 1000);
    } catch (error) {
      if (Date.now() > deadline)
        throw new OperatorError(`The API at ${baseUrl} does not answer.`, 1, { cause: error });
      await pause(100);
    }
  }
}

export function createApi(baseUrl: string): Api {
  const call: Api['call'] = async <T>(method: string, path: string, options?: CallOptions) => {
    const { response, envelope } = await send(baseUrl, method, path, options);
    if (envelope.success) return envelope.data as T;
    throw new ApiRefusal(
      response.status,
      envelope.error?.code ?? 'UNKNOWN',
      `${method} ${path}: ${envelope.error?.message ?? response.statusText}`,
    );
  };

  return {
    call,
    async list<T>(path: string, token: string) {
      const items: T[] = [];
      for (let cursor = ''; ;) {
        const { response, envelope } = await send(
          baseUrl,
          'GET',
          `${path}?limit=100${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
          { token },
        );
        if (!envelope.success)
          throw new ApiRefusal(
            response.status,
            envelope.error?.code ?? 'UNKNOWN',
            envelope.error?.message ?? '',
          );
        items.push(...(envelope.data as T[]));
        cursor = response.headers.get('x-next-cursor') ?? '';
        if (cursor === '') return items;
      }
    },
    async signIn(wallet, role) {
      const from = addressOf(wallet);
      const { nonce, message } = await call<{ nonce: string; message: string }>(
        'POST',
        '/auth/nonce',
        { from, body: { wallet: wallet.address, role } },
      );
      const signature = wallet.sign(message);
      const { token } = await call<{ token: string }>('POST', '/auth/verify', {
        from,
        body: { wallet: wallet.address, nonce, signature },
      });
      return token;
    },
  };
}

/**
 * Derives an IP address for each wallet. The addresses are in 198.18.0.0/15, the range for
 * benchmarks (RFC 2544), which the internet does not route.
 */
function addressOf({ keypair }: Wallet): string {
  const [a = 0, b = 0, c = 0] = keypair.sign(Buffer.from('address'));
  return `198.${18 + (a % 2)}.${b}.${c}`;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
