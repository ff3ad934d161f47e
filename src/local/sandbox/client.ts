// Clients of the service's REST API. In the sandbox they replace the merchants' back ends and the
// subscriber pages.
import { setTimeout as pause } from 'node:timers/promises';
import { type Client, createClient } from '../../client/client.ts';
import type { Wallet } from './wallet.ts';

/**
 * Milliseconds for which a request is repeated while the server is down. The sandbox itself kills
 * its servers, and a killed server needs time to start again.
 */
const PATIENCE_MS = 20_000;
/** Maximum Retry-After (ms) of the service. */
const MAX_WAIT_MS = 60_000;

/**
 * Creates a client. Without `token`, requests are anonymous. `from` is the IP address of the
 * client, sent as X-Forwarded-For.
 */
export function clientOf(baseUrl: string, token?: string, from?: string): Client {
  return createClient({
    baseUrl,
    token,
    timeoutMs: PATIENCE_MS + MAX_WAIT_MS,
    fetch: (url, init) => {
      const headers = new Headers(init?.headers);
      if (from !== undefined) headers.set('x-forwarded-for', from);
      return patiently(url, { ...init, headers });
    },
  });
}

/**
 * Sends a request, and repeats it until the server responds or PATIENCE_MS have passed. Unlike the
 * retries of the client, this also repeats each POST, and a response that breaks off.
 */
async function patiently(...[url, init]: Parameters<typeof fetch>): Promise<Response> {
  const deadline = Date.now() + PATIENCE_MS;
  for (;;) {
    let waitMs = 100;
    try {
      const response = await fetch(url, init);
      const body = await response.text();
      // A status other than 429 and 5xx is final. After 429, the delay is in Retry-After. A 5xx
      // means that the database or the chain is temporarily unreachable.
      if ((response.status !== 429 && response.status < 500) || Date.now() > deadline)
        return new Response(body, response);
      waitMs = Number(response.headers.get('retry-after') ?? 0.2) * 1000;
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
    await pause(waitMs);
  }
}

/** Signs in with the wallet's signature. Returns the JWT. */
export async function signIn(
  baseUrl: string,
  wallet: Wallet,
  role: 'merchant' | 'subscriber',
): Promise<string> {
  const client = clientOf(baseUrl, undefined, addressOf(wallet));
  const { address } = wallet;
  const { nonce, message } = await client.post('/auth/nonce', { body: { wallet: address, role } });
  const body = { wallet: address, nonce, signature: wallet.sign(message) };
  return (await client.post('/auth/verify', { body })).token;
}

/**
 * Derives an IP address for each wallet, because the service limits sign-ins per IP address. The
 * addresses are in 198.18.0.0/15, the range for benchmarks (RFC 2544), which the internet does not
 * route.
 */
function addressOf({ keypair }: Wallet): string {
  const [a = 0, b = 0, c = 0] = keypair.sign(Buffer.from('address'));
  return `198.${18 + (a % 2)}.${b}.${c}`;
}
