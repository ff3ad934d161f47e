// Opens a session at one host: connects, starts TLS, authenticates, and asks for the server's role.
// https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-START-UP
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import {
  describeHost,
  type PostgresHost,
  type PostgresTls,
  type Target,
} from '../../config/postgres-url.ts';
import { ADDRESS_TIMEOUT_MS } from '../../sockets.ts';

interface Handshake {
  /** The driver's first message. Each host that is tried receives this message. */
  startup: Buffer;
  /**
   * Passes an authentication request from the server to the driver. Resolves with the driver's
   * response.
   */
  authenticate: (request: Buffer) => Promise<Buffer>;
  /** Passes a message from the server to the driver. The message needs no response. */
  inform: (message: Buffer) => void;
  /** Called with the TCP socket of each connection attempt. */
  onOpened?: ((tcp: Socket) => void) | undefined;
  tls: PostgresTls;
  tlsOptions: ConnectionOptions | undefined;
  /** Aborts the handshake: the time limit for this host has passed, or the driver gives up. */
  signal: AbortSignal;
}

export interface Session {
  tcp: Socket;
  /** The TCP or TLS socket, paused. */
  stream: Socket;
  /** The server's messages from AuthenticationOk to ReadyForQuery. */
  greeting: Buffer;
}

/** The server's ErrorResponse to the handshake. */
export class Refusal extends Error {
  readonly response: Buffer;
  readonly code: string;

  constructor(response: Buffer) {
    const fields = response.toString('utf8', HEADER_BYTES).split('\0');
    super(fields.find((field) => field.startsWith('M'))?.slice(1));
    this.response = response;
    this.code = fields.find((field) => field.startsWith('C'))?.slice(1) ?? '';
  }

  /**
   * Whether another host may accept the session: the error is admin_shutdown, crash_shutdown or
   * cannot_connect_now.
   */
  get isTemporary(): boolean {
    return ['57P01', '57P02', '57P03'].includes(this.code);
  }
}

/** Thrown when the server's role does not match `target_session_attrs`. */
export class WrongRole extends Error {
  readonly code = 'NO_HOST';
}

/**
 * Opens a session at one of the host's addresses and checks the server's role. Throws a Refusal, a
 * WrongRole, the error of the connection, or the signal's reason.
 */
export async function openSession(
  host: PostgresHost,
  target: Target,
  handshake: Handshake,
): Promise<Session> {
  const addresses = await addressesOf(host, handshake.signal);
  let failure: unknown;
  for (const [at, address] of addresses.entries()) {
    const isLast = at === addresses.length - 1;
    try {
      return await openAt(address, isLast, host, target, handshake);
    } catch (error) {
      failure = error;
      if (handshake.signal.aborted) throw error;
      if (error instanceof Refusal && !error.isTemporary) throw error;
    }
  }
  throw failure;
}

async function addressesOf(
  { name }: PostgresHost,
  signal: AbortSignal,
): Promise<readonly string[]> {
  if (name.startsWith('/') || isIP(name) !== 0) return [name];
  const found = await unlessAborted(signal, lookup(name, { all: true }));
  return found.map((entry) => entry.address);
}

async function openAt(
  address: string,
  isLast: boolean,
  host: PostgresHost,
  target: Target,
  handshake: Handshake,
): Promise<Session> {
  const { startup, signal, onOpened } = handshake;
  const isSocket = address.startsWith('/');
  const ended = new AbortController();
  const tcp = isSocket
    ? connect(`${address}/.s.PGSQL.${host.port}`)
    : connect({ host: address, port: host.port });
  onOpened?.(tcp);
  const attempt = AbortSignal.any([signal, ended.signal]);
  const end = (error: Error) => ended.abort(error);
  tcp.on('error', end).on('close', () => end(closed()));
  const late = setTimeout(() => end(timedOut(host)), ADDRESS_TIMEOUT_MS);
  if (isLast) clearTimeout(late);
  try {
    await once(tcp, 'connect', { signal: attempt });
    clearTimeout(late);
    const stream = isSocket ? tcp : await secure(tcp, host, handshake, attempt, end);
    const messages = new Messages(stream, attempt);
    stream.write(startup);
    const greeting = await authenticated(stream, messages, handshake, attempt);
    await assertRole(stream, messages, target);
    return { tcp, stream, greeting };
  } catch (error) {
    clearTimeout(late);
    tcp.destroy();
    throw attempt.aborted ? attempt.reason : error;
  }
}

/**
 * The message that asks the server for TLS: its length and the request code.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

/**
 * Starts TLS if the URL asks for TLS. If the server offers no TLS, continues without TLS when
 * sslmode is `prefer` or `allow`, and throws otherwise.
 */
async function secure(
  tcp: Socket,
  host: PostgresHost,
  { tls, tlsOptions }: Handshake,
  signal: AbortSignal,
  onError: (error: Error) => void,
): Promise<Socket> {
  if (tlsOptions === undefined) return tcp;
  tcp.write(SSL_REQUEST);
  const response = (await new Messages(tcp, signal).bytes(1)).toString();
  if (response === 'N' && (tls.mode === 'prefer' || tls.mode === 'allow')) return tcp;
  if (response !== 'S') throw new Error(`Postgres offers no TLS, and sslmode is ${tls.mode}`);
  const servername = isIP(host.name) === 0 ? { servername: host.name } : {};
  const stream = connectTls({ socket: tcp, host: host.name, ...servername, ...tlsOptions });
  stream.on('error', onError);
  await once(stream, 'secureConnect', { signal });
  return stream;
}

/**
 * Lets the driver authenticate. Returns the server's messages from AuthenticationOk to
 * ReadyForQuery.
 */
async function authenticated(
  stream: Socket,
  messages: Messages,
  { authenticate, inform }: Handshake,
  signal: AbortSignal,
): Promise<Buffer> {
  const greeting: Buffer[] = [];
  for (;;) {
    const message = await messages.next();
    const type = typeOf(message);
    if (type === 'E') throw new Refusal(message);
    if (type !== 'R' || message.readInt32BE(HEADER_BYTES) === AUTHENTICATION_OK)
      greeting.push(message);
    else if (message.readInt32BE(HEADER_BYTES) === SASL_FINAL) inform(message);
    else stream.write(await unlessAborted(signal, authenticate(message)));
    if (type === 'Z') return Buffer.concat(greeting);
  }
}

const AUTHENTICATION_OK = 0;
const SASL_FINAL = 12;

const ROLE_QUERY = `select case when pg_catalog.pg_is_in_recovery() then 'standby' when pg_catalog.current_setting('transaction_read_only') = 'on' then 'read-only' else 'primary' end`;

const ACCEPTED: Record<Target, readonly string[]> = {
  any: ['standby', 'read-only', 'primary'],
  primary: ['primary', 'read-only'],
  'read-write': ['primary'],
  'read-only': ['standby', 'read-only'],
  standby: ['standby'],
  'prefer-standby': ['standby'],
};

/**
 * Throws a WrongRole when the server's role does not match `target`. Asks for the role with a
 * query, because poolers do not forward `in_hot_standby` and `default_transaction_read_only`.
 */
async function assertRole(stream: Socket, messages: Messages, target: Target): Promise<void> {
  if (target === 'any') return;
  const text = Buffer.from(`${ROLE_QUERY}\0`);
  const query = Buffer.concat([Buffer.from('Q0000'), text]);
  query.writeInt32BE(text.length + 4, 1);
  stream.write(query);
  let role = '';
  for (;;) {
    const message = await messages.next();
    const type = typeOf(message);
    if (type === 'E') throw new Refusal(message);
    // A DataRow consists of the number of columns (2 bytes) and, for each column, a length (4
    // bytes) and a value. The answer has one column.
    if (type === 'D') role = message.toString('utf8', HEADER_BYTES + 6);
    if (type === 'Z') break;
  }
  if (!ACCEPTED[target].includes(role))
    throw new WrongRole(
      `is ${role === 'read-only' ? 'read-only' : `a ${role}`}, and target_session_attrs is ${target}`,
    );
}

/** Type (1 byte) and length (4 bytes) of a message. */
const HEADER_BYTES = 5;
/** Maximum length of a handshake message. A server with longer messages speaks another protocol. */
const MAX_MESSAGE_BYTES = 65_536;

const typeOf = (message: Buffer) => message.toString('latin1', 0, 1);

/** Reads one message at a time from a paused socket. Bytes after the message stay in the socket. */
class Messages {
  readonly #stream: Socket;
  readonly #signal: AbortSignal;

  constructor(stream: Socket, signal: AbortSignal) {
    this.#stream = stream;
    this.#signal = signal;
  }

  async next(): Promise<Buffer> {
    const header = await this.bytes(HEADER_BYTES);
    const length = header.readInt32BE(1);
    if (length < 4 || length > MAX_MESSAGE_BYTES)
      throw new Error('the server does not speak the protocol of Postgres');
    return length === 4 ? header : Buffer.concat([header, await this.bytes(length - 4)]);
  }

  async bytes(count: number): Promise<Buffer> {
    for (;;) {
      const chunk = this.#stream.read(count) as Buffer | null;
      if (chunk?.length === count) return chunk;
      if (chunk !== null) throw closed();
      await once(this.#stream, 'readable', { signal: this.#signal });
    }
  }
}

async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  signal.throwIfAborted();
  let abort: () => void = () => undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    abort = () => reject(signal.reason as Error);
    signal.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function closed(): Error {
  const error = new Error('the connection was closed before Postgres answered');
  return Object.assign(error, { code: 'ECONNRESET' });
}

export function timedOut(host: PostgresHost): Error {
  const error = new Error(`Postgres at ${describeHost(host)} did not answer in time`);
  return Object.assign(error, { code: 'CONNECT_TIMEOUT' });
}
