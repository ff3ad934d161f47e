// One connection to an endpoint, TLS or not, which carries one request at a time.
import type { Socket } from 'node:net';
import type { Deadline } from './deadlines.ts';
import { ClosedConnection } from './failure.ts';

/** Who sends on a connection and hears what comes back. */
export interface Exchange {
  /** `bytes` are in memory that is used again. */
  onBytes(bytes: Buffer): void;
  /** The other side sends no more. */
  onEnd(): void;
  /** Nothing more will come. */
  onError(error: Error): void;
}

/** After so long, what an idle connection may have been told meanwhile (that it is closed, say) is read before it is used. */
const settledMs = 1;

export class Connection {
  readonly origin: string;
  /** The peer, once there is a connection. */
  address: string | null = null;
  /** While it is idle: keeps it from being ended for that. */
  idling: Deadline | undefined;
  /** Ends it once it has been idle for too long. */
  readonly endIdle = (): void => this.drop();
  private readonly connect: (connection: Connection) => void;
  private readonly onGone: (connection: Connection) => void;
  private socket: Socket | undefined;
  private exchange: Exchange | undefined;
  /** What is not sent yet. */
  private request: Buffer | undefined;
  private restedAt = 0;
  private gone = false;

  constructor(origin: string, connect: (connection: Connection) => void, onGone: (connection: Connection) => void) {
    this.origin = origin;
    this.connect = connect;
    this.onGone = onGone;
  }

  /** It is made. */
  connected(socket: Socket): void {
    if (this.gone) {
      socket.destroy();
      return;
    }
    this.socket = socket;
    this.address = socket.remoteAddress ?? null;
    socket.on('end', () => {
      if (this.exchange === undefined || this.request !== undefined) this.lost(socket);
      else this.exchange.onEnd();
    });
    socket.on('error', (error) => this.lost(socket, error));
    socket.on('close', () => this.lost(socket));
    this.flush();
  }

  /** Bytes have come, in memory that is used again. */
  received(bytes: Buffer): void {
    if (this.socket === undefined) return;
    if (this.exchange === undefined || this.request !== undefined) this.lost(this.socket);
    else this.exchange.onBytes(bytes);
  }

  /** Sends a request as soon as the connection is made; one at a time. */
  send(request: Buffer, exchange: Exchange): void {
    this.exchange = exchange;
    this.request = request;
    if (this.socket === undefined) return;
    if (performance.now() - this.restedAt < settledMs) this.flush();
    else setImmediate(() => this.flush());
  }

  /** The exchange is over; false when the connection cannot carry another. */
  rest(): boolean {
    this.exchange = undefined;
    this.restedAt = performance.now();
    return !this.gone && this.socket !== undefined && !this.socket.destroyed && this.socket.writableLength === 0;
  }

  /** Ends it; whoever was sending hears nothing more. */
  drop(): void {
    this.gone = true;
    this.exchange = undefined;
    this.request = undefined;
    this.onGone(this);
    this.socket?.destroy();
  }

  /** It could not be made, or was lost. */
  fail(error: Error): void {
    const { exchange } = this;
    this.drop();
    exchange?.onError(error);
  }

  private flush(): void {
    const { request } = this;
    if (this.socket === undefined || request === undefined) return;
    this.request = undefined;
    this.socket.write(request);
  }

  /** The socket is of no use any more. Before anything was sent on it for this exchange, that is no failure: there is another connection to be had. */
  private lost(socket: Socket, error?: Error): void {
    if (this.gone || this.socket !== socket) return;
    if (this.request === undefined) {
      this.fail(error ?? new ClosedConnection('the other side closed the connection'));
      return;
    }
    this.socket = undefined;
    socket.destroy();
    this.connect(this);
  }
}
