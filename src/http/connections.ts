// Limits that protect the process from its clients: open connections (per process and per address),
// requests that wait for events, unanswered requests per connection (pipelining), and responses
// that a client does not read.
//
// When a limit is reached, a new connection replaces an old connection: (1) the oldest connection
// that has sent no request, else (2) the connection that has been idle for the longest time. So
// silent connections cannot lock out other clients. If every connection has an unanswered request,
// the new connection is closed.
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { addressSubject } from './addresses.ts';

export interface ConnectionLimits {
  /** Maximum number of open connections. A quarter of the connections may wait for events. */
  connections: number;
  /**
   * Maximum number of open connections per address, except for trusted proxies. Half of an
   * address's connections may wait for events.
   */
  perAddress: number;
  /** Maximum number of unanswered requests per connection. */
  inHand: number;
  /** Milliseconds between two checks for clients that read their responses too slowly. */
  checkMs: number;
  /**
   * Minimum number of bytes that a client must read between two checks while a response is being
   * sent. Node counts the bytes of a write only when the whole write is sent.
   */
  bytesPerCheck: number;
}

export const connectionLimits: Omit<ConnectionLimits, 'perAddress'> = {
  connections: 2000,
  inHand: 16,
  checkMs: 30_000,
  bytesPerCheck: 16 * 1024,
};

/**
 * The limit because of which a connection is closed: the limit of the process or the limit per
 * address.
 */
export type Crowded = 'process' | 'address';

export interface ConnectionOptions extends ConnectionLimits {
  /**
   * Whether the address belongs to a trusted proxy. A proxy carries the requests of many clients.
   */
  isTrusted: (address: string) => boolean;
  /** Called for each connection that is closed because a limit is reached. */
  onRefused: (limit: Crowded, peer: string | undefined) => void;
}

/** The connections of the process or of one address. */
class Group {
  readonly limit: number;
  readonly maxWaiting: number;
  size = 0;
  waiting = 0;
  /** Connections that have sent no complete request yet, oldest first. */
  readonly unused = new Set<Socket>();
  /**
   * Connections whose requests are all answered. The connection with the longest idle time is
   * first.
   */
  readonly idle = new Set<Socket>();

  constructor(limit: number, maxWaiting: number) {
    this.limit = limit;
    this.maxWaiting = Math.max(1, Math.floor(maxWaiting));
  }
}

interface Held {
  address: string | undefined;
  groups: readonly Group[];
  requests: number;
}

export class Connections {
  readonly #options: ConnectionOptions;
  readonly #process: Group;
  readonly #byAddress = new Map<string, Group>();
  readonly #open = new Map<Socket, Held>();
  /**
   * Number of bytes that each connection had sent at the last check. Only connections with unsent
   * bytes are listed.
   */
  #unread = new Map<Socket, number>();

  /** Watches the connections of `server` until the server closes. */
  constructor(server: Server, options: ConnectionOptions) {
    this.#options = options;
    this.#process = new Group(options.connections, options.connections / 4);
    server.on('connection', (socket: Socket) => this.#accept(socket));
    const timer = setInterval(() => this.#closeSlowReaders(), options.checkMs).unref();
    server.once('close', () => clearInterval(timer));
  }

  /**
   * Counts a request as unanswered until its response closes. Returns false when the connection has
   * too many unanswered requests.
   */
  admit(socket: Socket, response: ServerResponse): boolean {
    const held = this.#open.get(socket);
    if (held === undefined) return true;
    held.requests += 1;
    for (const { unused, idle } of held.groups) {
      unused.delete(socket);
      idle.delete(socket);
    }
    response.once('close', () => {
      held.requests -= 1;
      if (held.requests > 0 || !this.#open.has(socket)) return;
      for (const { idle } of held.groups) idle.add(socket);
    });
    return held.requests <= this.#options.inHand;
  }

  /**
   * Counts a request that waits for events. Returns the function that ends the count, or undefined
   * when too many requests of this process or this address already wait.
   */
  wait(socket: Socket): (() => void) | undefined {
    const groups = this.#open.get(socket)?.groups ?? [this.#process];
    if (groups.some(({ waiting, maxWaiting }) => waiting >= maxWaiting)) return undefined;
    for (const group of groups) group.waiting += 1;
    return () => {
      for (const group of groups) group.waiting -= 1;
    };
  }

  /**
   * Closes connections that have sent no byte yet. Node does not close these connections when the
   * server stops, because Node treats a connection as idle only after its first request.
   */
  closeUnused(): void {
    for (const socket of this.#process.unused) if (socket.bytesRead === 0) socket.destroy();
  }

  #accept(socket: Socket): void {
    const { remoteAddress } = socket;
    const { isTrusted, perAddress } = this.#options;
    const isCounted = remoteAddress !== undefined && !isTrusted(remoteAddress);
    const address = isCounted ? addressSubject(remoteAddress) : undefined;
    const own =
      address === undefined
        ? undefined
        : (this.#byAddress.get(address) ?? new Group(perAddress, perAddress / 2));
    const hasRoom =
      (own === undefined || this.#makeRoom(own, 'address', remoteAddress)) &&
      this.#makeRoom(this.#process, 'process', remoteAddress);
    if (!hasRoom) {
      socket.destroy();
      return;
    }
    if (address !== undefined && own !== undefined) this.#byAddress.set(address, own);
    const groups = own === undefined ? [this.#process] : [this.#process, own];
    this.#open.set(socket, { address, groups, requests: 0 });
    for (const group of groups) {
      group.size += 1;
      group.unused.add(socket);
    }
    socket.once('close', () => this.#forget(socket));
  }

  /**
   * Makes room for a new connection in the group. If the group is full, an old connection is
   * closed. Returns false when no connection can be closed.
   */
  #makeRoom(group: Group, limit: Crowded, peer: string | undefined): boolean {
    if (group.size < group.limit) return true;
    this.#options.onRefused(limit, peer);
    const [oldest] = group.unused.size > 0 ? group.unused : group.idle;
    if (oldest === undefined) return false;
    this.#forget(oldest);
    oldest.destroy();
    return true;
  }

  #forget(socket: Socket): void {
    const held = this.#open.get(socket);
    if (held === undefined) return;
    this.#open.delete(socket);
    for (const group of held.groups) {
      group.size -= 1;
      group.unused.delete(socket);
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
