// Sockets of a Postgres pool. Each socket is a stream around TCP or TLS. The socket selects the
// host and works around two bugs of postgres.js 3.4: (1) While all hosts are down, statements never
// settle. (2) After a lost connection, statements hang or get the rows of other statements, and the
// pool keeps connections that never work again.
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';
import type { ConnectionOptions } from 'node:tls';
import { describeHost, type PostgresHost, type PostgresUrl } from '../../config/postgres-url.ts';
import { messageOf } from '../../errors.ts';
import { openSession, Refusal, type Session, timedOut, WrongRole } from './handshake.ts';

/** The hosts of a pool, and how to connect to them. */
export interface Servers {
  hosts: PostgresUrl['hosts'];
  target: PostgresUrl['target'];
  tls: PostgresUrl['tls'];
  tlsOptions: ConnectionOptions | undefined;
  /** Time limit for one host, ms. */
  connectMs: number;
}

/** Opens a socket for postgres.js. The callback `onOpened` gets each TCP socket. */
export type OpenSocket = (onOpened?: (tcp: Socket) => void) => Duplex;

/**
 * Creates a function that opens sockets. Each socket tries the hosts in turn until one has the
 * wanted role. Each socket starts with the host of the last session. A frozen host therefore delays
 * only the first connections.
 */
export function createSocketOpener(servers: Servers): OpenSocket {
  let last = 0;
  const inOrder = () => [...servers.hosts.slice(last), ...servers.hosts.slice(0, last)];
  return (onOpened) =>
    new PostgresSocket(servers, inOrder(), {
      onOpened,
      onSession: (host) => (last = servers.hosts.indexOf(host)),
    });
}

interface Listeners {
  onOpened: ((tcp: Socket) => void) | undefined;
  onSession: (host: PostgresHost) => void;
}

/**
 * Until the session begins, messages between the driver and the hosts go this way:
 *
 *   driver  -- StartupMessage -->  sent to each host in turn
 *   host    -- request for a password, SASL -->  to the driver, whose response goes to that host
 *   host    -- refusal, silence, wrong role -->  hidden from the driver; the next host is tried
 *   host    -- AuthenticationOk ... ReadyForQuery -->  to the driver; from then on all bytes pass
 */
class PostgresSocket extends Duplex {
  /** postgres.js reads host and port for its error messages. */
  host: string;
  port: number;
  readonly #servers: Servers;
  readonly #hosts: readonly PostgresHost[];
  readonly #listeners: Listeners;
  readonly #ended = new AbortController();
  /**
   * Authentication requests that the driver has not answered yet: for each request, a callback for
   * the response. Requests of hosts that have failed stay in the list, because the driver answers
   * them too.
   */
  readonly #requests: ((response: Buffer) => void)[] = [];
  /** The socket of the session; undefined until the session begins. */
  #session: Pick<Session, 'tcp' | 'stream'> | undefined;
  #isGreeted = false;
  /** True when postgres.js has received the server's greeting or refusal. */
  #isAnswered = false;
  #keepAlive: [boolean, number] = [false, 0];

  constructor(servers: Servers, hosts: readonly PostgresHost[], listeners: Listeners) {
    super({ emitClose: false });
    this.#servers = servers;
    this.#hosts = hosts;
    this.#listeners = listeners;
    const [{ name, port }] = servers.hosts;
    this.host = name;
    this.port = port;
    this.#closeUnlessGreeted();
  }

  /** postgres.js reads this state when it closes a socket. */
  get readyState(): 'open' | 'closed' {
    return this.destroyed ? 'closed' : 'open';
  }

  setKeepAlive(enable: boolean, initialDelay: number): this {
    this.#keepAlive = [enable, initialDelay];
    return this;
  }

  override _read(): void {
    this.#session?.stream.resume();
  }

  override _write(message: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // The error of a failed write is ignored, because the 'close' event of the TCP socket follows
    // and destroys this stream.
    if (this.#session !== undefined) {
      this.#session.stream.write(message, () => done());
      return;
    }
    if (this.#isGreeted) this.#requests.shift()?.(message);
    // The first message of the protocol starts with its length, all other messages with a letter.
    else if (message.readInt32BE(0) === message.length) {
      this.#isGreeted = true;
      void this.#begin(message);
    } else this.destroy();
    done();
  }

  override _final(done: () => void): void {
    if (this.#session === undefined) this.destroy();
    else this.#session.stream.end(done);
  }

  /**
   * Before postgres.js has received a greeting or a refusal, reports the error. If a normal end
   * were reported instead, postgres.js would reconnect without end
   * (github.com/porsager/postgres/issues/1193). Later, reports a normal end. If the error were
   * reported instead, postgres.js would accept more statements until the close, and these would
   * hang or get the rows of other statements.
   */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#ended.abort();
    this.#session?.tcp.destroy();
    const reported = this.#isAnswered ? null : error;
    done(reported);
    // postgres.js may still write an unsent message in the current turn of the event loop (see
    // #closeUnlessGreeted). The close is therefore reported in the next turn.
    setImmediate(() => this.emit('close', reported !== null));
  }

  /** Tries the hosts until one opens a session with the wanted role. Never rejects. */
  async #begin(startup: Buffer): Promise<void> {
    const { target } = this.#servers;
    let failures = await this.#try(this.#hosts, target, startup);
    // If prefer-standby found no standby, a primary is accepted.
    const primaryFailures = failures?.filter(({ error }) => error instanceof WrongRole) ?? [];
    if (target === 'prefer-standby' && primaryFailures.length > 0)
      failures = await this.#try(
        primaryFailures.map(({ host }) => host),
        'any',
        startup,
      );
    if (failures !== undefined) this.destroy(summary(failures));
  }

  /**
   * Tries each host once. Returns the failures of all hosts. Returns undefined when a session
   * began, a host refused the driver, or the driver gave up.
   */
  async #try(
    hosts: readonly PostgresHost[],
    target: Servers['target'],
    startup: Buffer,
  ): Promise<Failure[] | undefined> {
    const failures: Failure[] = [];
    for (const host of hosts) {
      this.host = host.name;
      this.port = host.port;
      const limit = new AbortController();
      const timer = setTimeout(() => limit.abort(timedOut(host)), this.#servers.connectMs);
      try {
        const session = await openSession(host, target, {
          startup,
          authenticate: (request) => this.#authenticate(request),
          inform: (message) => void this.push(message),
          onOpened: this.#listeners.onOpened,
          tls: this.#servers.tls,
          tlsOptions: this.#servers.tlsOptions,
          signal: AbortSignal.any([limit.signal, this.#ended.signal]),
        });
        this.#listeners.onSession(host);
        this.#use(session);
        return undefined;
      } catch (error) {
        if (this.destroyed) return undefined;
        const isTried = this.#hosts.length > 1 && error instanceof Refusal && error.isTemporary;
        if (error instanceof Refusal && !isTried) {
          this.#refuse(error);
          return undefined;
        }
        failures.push({ host, error });
      } finally {
        clearTimeout(timer);
      }
    }
    return failures;
  }

  /**
   * Passes a request to the driver and waits for the driver's response. If the host has failed by
   * then, the response is ignored.
   */
  #authenticate(request: Buffer): Promise<Buffer> {
    return new Promise((resolve) => {
      this.#requests.push(resolve);
      this.push(request);
    });
  }

  #refuse({ response }: Refusal): void {
    this.#isAnswered = true;
    this.push(response);
    setImmediate(() => this.destroy());
  }

  #use({ tcp, stream, greeting }: Session): void {
    this.#session = { tcp, stream };
    tcp.setKeepAlive(...this.#keepAlive);
    tcp.on('close', () => this.destroy());
    stream.on('end', () => this.destroy());
    this.#isAnswered = true;
    this.push(greeting);
    stream.on('data', (chunk) => {
      if (!this.push(chunk)) stream.pause();
    });
    if (tcp.destroyed) this.destroy();
  }

  /**
   * Closes the socket if postgres.js does not send the StartupMessage at once. After a lost
   * connection, postgres.js may still hold unsent messages, and then sends nothing until they fill
   * 1,024 bytes (github.com/LanternOps/breeze/issues/3225). After a few closed sockets, postgres.js
   * drops these messages and sends the StartupMessage.
   */
  #closeUnlessGreeted(): void {
    setImmediate(() =>
      setImmediate(() => {
        if (!this.#isGreeted) this.destroy();
      }),
    );
  }
}

interface Failure {
  host: PostgresHost;
  error: unknown;
}

/**
 * Combines the failures of all hosts into one error that names each host with its failure. A single
 * failure is returned unchanged, unless it is a WrongRole.
 */
function summary(failures: readonly Failure[]): Error {
  const [only] = failures;
  const described = failures.map(({ host, error }) => `${describeHost(host)}: ${messageOf(error)}`);
  if (failures.length === 1 && only?.error instanceof Error && !(only.error instanceof WrongRole))
    return only.error;
  const words = failures.length === 1 ? 'Postgres at' : 'no host can be used:';
  return Object.assign(new Error(`${words} ${described.join('; ')}`), { code: 'NO_HOST' });
}
