// Sockets of a Postgres pool. A stream around TCP or TLS works around bugs of postgres.js 3.4 with
// lost connections. Without the stream, statements hang or get the rows of other statements, and a
// pool keeps connections that never work again.
import { connect, isIP, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import { ADDRESS_TIMEOUT_MS } from '../../sockets.ts';

/**
 * TLS options of the URL as postgres.js reads them: `sslmode` (`require`, `prefer`, `verify-full`,
 * ...; false without TLS) and `sslnegotiation`.
 */
export interface TlsMode {
  ssl: unknown;
  sslnegotiation: unknown;
}

/** The argument that postgres.js passes to its `socket` option. */
interface Target {
  host: readonly string[];
  port: readonly number[];
  path?: string | false;
  tls: TlsMode;
}

/** A function for the `socket` option of postgres.js. `onOpened` gets the TCP socket. */
export type OpenSocket = (target: Target, onOpened?: (tcp: Socket) => void) => Duplex;

/**
 * Creates a function that opens each new socket to the next host of the URL. If the host is of the
 * wrong kind, such as a standby, postgres.js ends the connection and tries the next host.
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
    // postgres.js reads host and port from the socket for its error messages.
    return Object.assign(new PostgresSocket(tcp, place.host, tls), place);
  };
}

/**
 * The message that asks the server for TLS: its length and the request code.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

class PostgresSocket extends Duplex {
  readonly #tcp: Socket;
  /** The TCP or TLS socket; undefined until it is connected. */
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

  /** postgres.js reads this state when it closes a socket. */
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
    // The first message of the protocol starts with its length, all other messages with a letter.
    this.#isGreeted ||= message.readInt32BE(0) === message.length;
    if (!this.#isGreeted) {
      this.destroy();
      return;
    }
    // A failed write closes the socket, so the error is not handled here.
    const send = () => void this.#stream?.write(message, () => done());
    if (this.#stream === undefined) this.#onStream = send;
    else send();
  }

  override _final(done: () => void): void {
    if (this.#stream === undefined) this.destroy();
    else this.#stream.end(done);
  }

  /**
   * Reports an error only if the connection has received no bytes yet; otherwise reports a normal
   * end. On a normal end, postgres.js rejects all statements of the connection at once. On an
   * error, postgres.js accepts statements until the close. Such statements hang, and statements of
   * the next connection get each other's rows.
   */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#tcp.destroy();
    const reported = this.#hasReceived ? null : error;
    done(reported);
    // postgres.js may hold a message until the end of this turn and writes it before the socket
    // reports its end. #closeUnlessGreeted explains this.
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
   * Handles a close by the other side. A close before the first byte is an error, for example from
   * a proxy whose Postgres is down. Otherwise postgres.js would reconnect hundreds of times a
   * second and never settle the waiting statement (github.com/porsager/postgres/issues/1193).
   */
  #end(): void {
    const error = new Error('the connection was closed before Postgres answered');
    this.destroy(this.#hasReceived ? undefined : Object.assign(error, { code: 'ECONNRESET' }));
  }

  /**
   * Closes a socket on which postgres.js did not start with the protocol's first message. If a
   * connection closes while postgres.js holds short messages, postgres.js keeps these and sends
   * nothing on new sockets until it holds 1,024 bytes. A few closed sockets make postgres.js drop
   * them and start correctly (github.com/LanternOps/breeze/issues/3225).
   */
  #closeUnlessGreeted(): void {
    setImmediate(() =>
      setImmediate(() => {
        if (!this.#isGreeted) this.destroy();
      }),
    );
  }
}

/**
 * Converts `sslmode` as postgres.js does: `require`, `prefer` and `allow` do not verify the
 * server's certificate.
 */
function optionsOf(ssl: unknown): ConnectionOptions {
  if (typeof ssl === 'object' && ssl !== null) return ssl;
  return ['require', 'prefer', 'allow'].includes(String(ssl)) ? { rejectUnauthorized: false } : {};
}
