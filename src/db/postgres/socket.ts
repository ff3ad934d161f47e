// The sockets of a Postgres pool: TCP or TLS behind a stream that keeps faults of postgres.js 3.4
// at a lost connection from doing harm. Without it statements hang or get the rows of other
// statements, and a pool keeps connections that never work again.
import { connect, isIP, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { ADDRESS_TIMEOUT_MS } from '../../sockets.ts';

/**
 * What the URL says about TLS, as postgres.js reads it: `sslmode` (`require`, `prefer`,
 * `verify-full`, ...; false without TLS) and `sslnegotiation`.
 */
export interface TlsMode {
  ssl: unknown;
  sslnegotiation: unknown;
}

/** The argument of the `socket` option of postgres.js. */
interface Target {
  host: readonly string[];
  port: readonly number[];
  path?: string | false;
  tls: TlsMode;
}

/** The `socket` option of postgres.js. `onOpened` gets the TCP socket. */
export type OpenSocket = (target: Target, onOpened?: (tcp: Socket) => void) => Duplex;

/**
 * Opens each socket to the next host of the URL; postgres.js ends a connection to a host of the
 * wrong kind and tries the next.
 */
export function createSocketOpener(): OpenSocket {
  let opened = 0;
  return ({ host: hosts, port: ports, path, tls }, onOpened) => {
    const at = opened++ % hosts.length;
    const place = { host: hosts[at] ?? 'localhost', port: ports[at] ?? 5432 };
    const tcp =
      typeof path === 'string'
        ? connect(path)
        : connect({ ...place, autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS });
    onOpened?.(tcp);
    // postgres.js reads host and port from the socket for its errors.
    return Object.assign(new PostgresSocket(tcp, place.host, tls), place);
  };
}

/**
 * The length and the code of the message that asks the server for TLS.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

class PostgresSocket extends Duplex {
  readonly #tcp: Socket;
  /** The TCP or TLS socket once it is connected. */
  #stream: Socket | undefined;
  #onStream: (() => void) | undefined;
  #isGreeted = false;
  #hasReceived = false;

  constructor(tcp: Socket, host: string, { ssl, sslnegotiation }: TlsMode) {
    super({ emitClose: false });
    this.#tcp = tcp;
    tcp.on('error', (error) => this.destroy(error));
    tcp.on('close', () => this.#end());
    const secure = (options: ConnectionOptions) => {
      const servername = isIP(host) === 0 ? { servername: host } : {};
      const tls = connectTls({ socket: tcp, ...servername, ...optionsOf(ssl), ...options });
      tls.on('error', (error: Error) => this.destroy(error));
      tls.once('secureConnect', () => this.#use(tls));
    };
    tcp.once('connect', () => {
      if (ssl === false) this.#use(tcp);
      else if (sslnegotiation === 'direct') secure({ ALPNProtocols: ['postgresql'] });
      else {
        tcp.write(SSL_REQUEST);
        tcp.once('data', (response) => {
          const isRefused = response.toString() === 'N';
          if (response.toString() === 'S') secure({});
          else if (isRefused && (ssl === 'prefer' || ssl === 'allow')) this.#use(tcp);
          else this.destroy(new Error(`Postgres offers no TLS, and sslmode is ${String(ssl)}`));
        });
      }
    });
    this.#closeUnlessGreeted();
  }

  /** postgres.js ends and awaits a socket by this. */
  get readyState(): 'opening' | 'open' | 'closed' {
    if (this.destroyed) return 'closed';
    return this.#stream === undefined ? 'opening' : 'open';
  }

  setKeepAlive(enable: boolean, initialDelay: number): this {
    this.#tcp.setKeepAlive(enable, initialDelay);
    return this;
  }

  override _read(): void {
    this.#stream?.resume();
  }

  override _write(message: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // The first message starts with its length, the others with a letter.
    this.#isGreeted ||= message.readInt32BE(0) === message.length;
    if (!this.#isGreeted) {
      this.destroy();
      return;
    }
    // A write that fails closes the socket.
    const send = () => void this.#stream?.write(message, () => done());
    if (this.#stream === undefined) this.#onStream = send;
    else send();
  }

  override _final(done: () => void): void {
    if (this.#stream === undefined) this.destroy();
    else this.#stream.end(done);
  }

  /**
   * Reports the error of a connection that has received bytes only as its end, on which postgres.js
   * rejects every statement of the connection at once. On an error it rejects those it has and
   * takes others until the socket is closed: these hang, and the statements of the next connection
   * get each other's rows.
   */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#tcp.destroy();
    const reported = this.#hasReceived ? null : error;
    done(reported);
    // postgres.js may hold a message until the end of this turn. It writes it before the socket
    // reports its end: see #closeUnlessGreeted.
    setImmediate(() => this.emit('close', reported !== null));
  }

  #use(stream: Socket): void {
    this.#stream = stream;
    stream.on('data', (chunk) => {
      this.#hasReceived = true;
      if (!this.push(chunk)) stream.pause();
    });
    stream.on('end', () => this.#end());
    this.#onStream?.();
  }

  /**
   * The other side closed the connection. Before its first byte that is an error: a proxy does so
   * whose Postgres is down. postgres.js would connect again at once, hundreds of times a second,
   * and never settle the statement that waits (github.com/porsager/postgres/issues/1193).
   */
  #end(): void {
    const error = new Error('the connection was closed before Postgres answered');
    this.destroy(this.#hasReceived ? undefined : Object.assign(error, { code: 'ECONNRESET' }));
  }

  /**
   * Closes the socket when postgres.js does not start it with the first message of the protocol.
   * postgres.js holds short messages until the end of the turn of the event loop. If the connection
   * closes in that turn, it keeps them and sends nothing over the next sockets until it holds 1,024
   * bytes, which Postgres would refuse. It opens a new socket whenever one closes under a waiting
   * statement, so after a few it has dropped what it held and starts the protocol. The statement
   * only waits some milliseconds longer. The fault is described in
   * github.com/LanternOps/breeze/issues/3225.
   */
  #closeUnlessGreeted(): void {
    setImmediate(() =>
      setImmediate(() => {
        if (!this.#isGreeted) this.destroy();
      }),
    );
  }
}

/** As postgres.js takes `sslmode`: only a mode that says so verifies the certificate. */
function optionsOf(ssl: unknown): ConnectionOptions {
  if (typeof ssl === 'object' && ssl !== null) return ssl;
  return ['require', 'prefer', 'allow'].includes(String(ssl)) ? { rejectUnauthorized: false } : {};
}
