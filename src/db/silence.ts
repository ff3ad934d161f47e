// Detects connections on which Postgres no longer answers, and drops them. A frozen server, or a proxy that drops packets, sends no FIN, and TCP itself
// needs a quarter of an hour to notice.
import { connect as connectSocket, type Socket } from 'node:net';

/** The argument of the `socket` option of postgres.js. */
interface Target {
  host: readonly string[];
  port: readonly number[];
  path?: string | false;
}

export interface Silence {
  /** Opens a socket to the next host of the URL: the `socket` option of postgres.js. */
  open: (target: Target) => Socket;
  /** Registers work as unanswered until the returned function is called. Runs `cancel` if that takes longer than the limit. */
  begin(cancel: () => void): () => void;
  /** Age of the oldest unanswered work in ms; 0 without any. */
  waitingMs(): number;
  /** Number of dropped connections. */
  readonly dropped: number;
  /** Milliseconds since the last drop; Infinity before the first. */
  droppedAgoMs(): number;
}

/** The limit is counted in this many timer ticks, so that a process that was suspended does not blame Postgres for the time. */
const looks = 20;

/** When work stays unanswered for `silentMs`, every connection that received nothing in that time is dropped. */
export function createSilence(silentMs: number): Silence {
  const sockets = new Map<Socket, { bytes: number; look: number }>();
  const waiting = new Set<{ look: number; cancel: () => void }>();
  const lookMs = silentMs / looks;
  let look = 0;
  let timer: NodeJS.Timeout | undefined;
  let host = 0;
  let dropped = 0;
  let droppedAt = -Infinity;

  const examine = () => {
    look += 1;
    for (const [socket, heard] of sockets) {
      if (socket.destroyed) sockets.delete(socket);
      else if (socket.bytesRead !== heard.bytes)
        sockets.set(socket, { bytes: socket.bytesRead, look });
    }
    // Work that began between two ticks has waited for less than its number of ticks.
    const late = [...waiting].filter((work) => look - work.look > looks);
    if (late.length > 0) drop();
    for (const work of late) work.cancel();
    if (waiting.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  const drop = () => {
    for (const [socket, heard] of sockets) {
      // A socket without any bytes is still connecting; connect_timeout of postgres.js covers that.
      if (heard.bytes === 0 || look - heard.look < looks) continue;
      socket.destroy();
      sockets.delete(socket);
      dropped += 1;
      droppedAt = performance.now();
    }
  };

  return {
    open({ host: hosts, port: ports, path }) {
      // Rotates over the hosts of the URL; postgres.js ends a connection to a host of the wrong kind and tries the next.
      const at = host++ % hosts.length;
      const place = { host: hosts[at] ?? 'localhost', port: ports[at] ?? 5432 };
      const socket = typeof path === 'string' ? connectSocket(path) : connectSocket(place);
      sockets.set(socket, { bytes: 0, look });
      // postgres.js reads host and port from the socket to verify the certificate and for its errors.
      return Object.assign(socket, place);
    },
    begin(cancel) {
      const work = { look, cancel };
      waiting.add(work);
      timer ??= setInterval(examine, lookMs).unref();
      return () => void waiting.delete(work);
    },
    waitingMs() {
      let oldest = look;
      for (const work of waiting) oldest = Math.min(oldest, work.look);
      return (look - oldest) * lookMs;
    },
    get dropped() {
      return dropped;
    },
    droppedAgoMs: () => performance.now() - droppedAt,
  };
}
