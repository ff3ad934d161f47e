// Opens connections through the operator's egress proxy (WEBHOOK_PROXY) with CONNECT (RFC 9110,
// 9.3.6). The SSRF guard first resolves the host and checks its addresses. The proxy gets the
// checked address instead of the name, so the proxy cannot connect to another address.
import { isIP, type LookupFunction, Socket } from 'node:net';
import { Pool } from 'undici';
import { ADDRESS_TIMEOUT_MS } from '../sockets.ts';
import { ProxyFailed } from './errors.ts';

export interface Tunnel {
  socket: Socket;
  /**
   * The address to which the proxy connected. Null when the guard is off, because the proxy then
   * resolves the name.
   */
  address: string | null;
}

export class EgressProxy {
  readonly #pool: Pool;
  readonly #headers: Record<string, string>;
  readonly #timeoutMs: number;

  /** `url` may have a user name and a password, for Basic authentication. */
  constructor(url: string, timeoutMs: number) {
    const { origin, username, password } = new URL(url);
    const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    this.#headers =
      username === '' && password === ''
        ? {}
        : { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };
    this.#timeoutMs = timeoutMs;
    this.#pool = new Pool(origin, {
      connect: {
        timeout: timeoutMs,
        autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
        rejectUnauthorized: true,
      },
      headersTimeout: timeoutMs,
    });
  }

  /**
   * Tries the host's addresses in order, and opens a tunnel to the first address that the proxy can
   * reach. Each attempt may take ADDRESS_TIMEOUT_MS. The attempt on the last address may take the
   * rest of the constructor's `timeoutMs`. Rejects with ProxyFailed, or with the error of the
   * look-up.
   */
  async open(
    { hostname, port }: { hostname: string; port: string },
    lookup: LookupFunction | undefined,
  ): Promise<Tunnel> {
    const deadline = AbortSignal.timeout(this.#timeoutMs);
    let failure: unknown;
    const hosts = await addressesOf(hostname, lookup);
    for (const host of hosts) {
      const signal =
        host === hosts.at(-1)
          ? deadline
          : AbortSignal.any([deadline, AbortSignal.timeout(ADDRESS_TIMEOUT_MS)]);
      const path = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
      try {
        const { socket, statusCode } = await this.#pool.connect({
          path,
          headers: { ...this.#headers, host: path },
          signal,
        });
        if (statusCode === 200 && socket instanceof Socket)
          return { socket, address: isIP(host) === 0 ? null : host };
        socket.on('error', () => undefined).destroy();
        failure = new Error(`the proxy answered ${statusCode}`);
      } catch (error) {
        failure = error;
        if (deadline.aborted) break;
      }
    }
    throw new ProxyFailed(failure);
  }

  close(): void {
    this.#pool.destroy().catch(() => undefined);
  }
}

function addressesOf(
  hostname: string,
  lookup: LookupFunction | undefined,
): Promise<readonly string[]> {
  if (isIP(hostname) !== 0 || lookup === undefined) return Promise.resolve([hostname]);
  return new Promise((resolve, reject) => {
    lookup(hostname, { all: true }, (error, found) => {
      if (error !== null) reject(error);
      else if (typeof found === 'string') resolve([found]);
      else resolve(found.map(({ address }) => address));
    });
  });
}
