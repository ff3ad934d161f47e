// Limits that protect the process from its clients: open connections (per process and per address),
// unanswered requests per connection (pipelining), and responses that a client does not read.
//
// When a connection limit is reached, the server closes an old connection to make room for a new
// connection. The server chooses the first of these connections that exists: (1) the oldest
// connection without a complete request (head or body), (2) the connection with the longest idle
// time, (3) the oldest connection with an unread response, but only if the limit of the process is
// reached. If none exists, the server closes the new connection. A client therefore cannot lock out
// other clients with connections that do nothing.
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { addressSubject } from './addresses.ts';

export interface ConnectionLimits {
  /**
   * Maximum number of open connections of the process. waiting.ts says how many of their requests
   * may wait.
   */
  connections: number;
  /**
   * Maximum number of open connections per address, except for trusted proxies.
   */
  perAddress: number;
  /** Maximum number of unanswered requests per connection. */
  inHand: number;
  /** Milliseconds between two checks for clients that read their responses too slowly. */
  checkMs: number;
  /**
   * Minimum number of bytes that a client must read between two checks while the client receives a
   * response. Otherwise the connection is closed. Node counts the bytes of a write only after the
   * whole write, so a long write counts as unread until its end.
   */
  bytesPerCheck: number;
}

export const connectionLimits: Omit<ConnectionLimits, 'perAddress'> = {
  connections: 2000,
  inHand: 16,
  checkMs: 30_000,
  bytesPerCheck: 16 * 1024,
};

/** The limit that was reached: the limit of the process or the limit per address. */
export type Crowded = 'process' | 'address';

export interface ConnectionOptions extends ConnectionLimits {
  /**
   * Whether the address belongs to a trusted proxy. The limit per address does not apply to a
   * proxy, because a proxy carries the requests of many clients.
   */
  isTrusted: (address: string) => boolean;
  /** Called for each connection that is closed because a limit is reached. */
  onRefused: (limit: Crowded, address: string | undefined) => void;
}

/** The connections of the process or of one address. */
class Group {
  readonly limit: number;
  size = 0;
  /**
   * Connections without a complete request: the client has sent nothing, or only part of a head or
   * body. The oldest connection is first. The set may also contain connections whose request is now
   * complete, because #oldestIncomplete removes these connections only when it finds them.
   */
  readonly incomplete = new Set<Socket>();
  /**
   * Connections whose requests are all answered. The connection with the longest idle time is
   * first.
   */
  readonly idle = new Set<Socket>();

  constructor(limit: number) {
    this.limit = limit;
  }
}

interface Held {
  address: string | undefined;
  groups: readonly Group[];
  /** Number of unanswered requests. */
  requests: number;
  /**
   * The latest request. Its body may be incomplete. The bodies of all earlier requests are
   * complete.
   */
  latest: IncomingMessage | undefined;
}

export class Connections {
  readonly #options: ConnectionOptions;
  readonly #process: Group;
  readonly #byAddress = new Map<string, Group>();
  readonly #open = new Map<Socket, Held>();
  /**
   * Connections that had unsent bytes at the last check, with the number of bytes that the server
   * had sent by then.
   */
  #unread = new Map<Socket, number>();

  /** Watches the connections of `server` until the server closes. */
  constructor(server: Server, options: ConnectionOptions) {
    this.#options = options;
    this.#process = new Group(options.connections);
    server.on('connection', (socket: Socket) => this.#accept(socket));
    const timer = setInterval(() => this.#closeSlowReaders(), options.checkMs).unref();
    server.once('close', () => clearInterval(timer));
  }

  /**
   * Counts a request as unanswered until its response closes. Returns false when the connection has
   * too many unanswered requests.
   */
  admit(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const held = this.#open.get(socket);
    if (held === undefined) return true;
    held.requests += 1;
    held.latest = request;
    this.#sort(socket, held);
    response.once('close', () => {
      held.requests -= 1;
      if (this.#open.has(socket)) this.#sort(socket, held);
    });
    return held.requests <= this.#options.inHand;
  }

  /**
   * Updates the sets `idle` and `incomplete` in each group of the connection. The connection moves
   * to the end of one of these sets, or is in neither set.
   */
  #sort(socket: Socket, { groups, requests, latest }: Held): void {
    // Responses are sent in the order of the requests. If only one request is unanswered, this
    // request is therefore the latest request.
    const isIncomplete = requests === 1 && latest?.complete === false;
    for (const { incomplete, idle } of groups) {
      incomplete.delete(socket);
      idle.delete(socket);
      if (requests === 0) idle.add(socket);
      else if (isIncomplete) incomplete.add(socket);
    }
  }

  /**
   * Closes connections that have sent no byte yet. Node does not close these connections when the
   * server stops, because Node treats a connection as idle only after its first request.
   */
  closeUnused(): void {
    for (const socket of this.#process.incomplete) if (socket.bytesRead === 0) socket.destroy();
  }

  #accept(socket: Socket): void {
    const { remoteAddress } = socket;
    const { isTrusted, perAddress } = this.#options;
    const isCounted = remoteAddress !== undefined && !isTrusted(remoteAddress);
    const address = isCounted ? addressSubject(remoteAddress) : undefined;
    const group =
      address === undefined ? undefined : (this.#byAddress.get(address) ?? new Group(perAddress));
    const hasRoom =
      (group === undefined || this.#makeRoom(group, 'address', remoteAddress)) &&
      this.#makeRoom(this.#process, 'process', remoteAddress);
    if (!hasRoom) {
      socket.destroy();
      return;
    }
    if (address !== undefined && group !== undefined) this.#byAddress.set(address, group);
    const groups = group === undefined ? [this.#process] : [this.#process, group];
    this.#open.set(socket, { address, groups, requests: 0, latest: undefined });
    for (const group of groups) {
      group.size += 1;
      group.incomplete.add(socket);
    }
    socket.once('close', () => this.#forget(socket));
  }

  /**
   * Makes room for a new connection in the group. If the group is full, an old connection is
   * closed. Returns false when no connection can be closed.
   */
  #makeRoom(group: Group, limit: Crowded, address: string | undefined): boolean {
    if (group.size < group.limit) return true;
    this.#options.onRefused(limit, address);
    const found =
      this.#oldestIncomplete(group) ??
      first(group.idle) ??
      (group === this.#process ? this.#oldestUnread() : undefined);
    if (found === undefined) return false;
    this.#forget(found);
    found.destroy();
    return true;
  }

  #oldestIncomplete({ incomplete }: Group): Socket | undefined {
    for (const socket of incomplete) {
      if (this.#open.get(socket)?.latest?.complete !== true) return socket;
      incomplete.delete(socket);
    }
    return undefined;
  }

  #oldestUnread(): Socket | undefined {
    for (const socket of this.#open.keys()) if (socket.writableLength > 0) return socket;
    return undefined;
  }

  #forget(socket: Socket): void {
    const held = this.#open.get(socket);
    if (held === undefined) return;
    this.#open.delete(socket);
    for (const group of held.groups) {
      group.size -= 1;
      group.incomplete.delete(socket);
      group.idle.delete(socket);
      if (group.size === 0 && held.address !== undefined && group !== this.#process)
        this.#byAddress.delete(held.address);
    }
  }

  #closeSlowReaders(): void {
    const before = this.#unread;
    this.#unread = new Map();
    for (const socket of this.#open.keys()) {
      if (socket.writableLength === 0) continue;
      const taken = socket.bytesWritten - socket.writableLength;
      if (taken - (before.get(socket) ?? -Infinity) < this.#options.bytesPerCheck) socket.destroy();
      else this.#unread.set(socket, taken);
    }
  }
}

function first<T>(set: ReadonlySet<T>): T | undefined {
  const [one] = set;
  return one;
}
