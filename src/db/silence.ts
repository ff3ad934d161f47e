// Finds connections on which Postgres no longer answers, and drops them. A server that is frozen, or a proxy that drops packets without a FIN, closes
// nothing: TCP itself needs a quarter of an hour to find out.
import { connect as connectSocket, type Socket } from 'node:net';

/** What postgres.js passes to its `socket` option. */
interface Target {
  host: readonly string[];
  port: readonly number[];
  path?: string | false;
}

export interface Silence {
  /** Opens a socket to the next host of the URL: the `socket` option of postgres.js. */
  open: (target: Target) => Socket;
  /** Counts work as unanswered until the function that it returns is called. `cancel` runs if that takes longer than the limit. */
  begin(cancel: () => void): () => void;
  /** Milliseconds that the oldest unanswered work has waited; 0 when there is none. */
  waitingMs(): number;
  /** Connections dropped so far. */
  readonly dropped: number;
  /** Milliseconds since the last drop; Infinity before the first. */
  droppedAgoMs(): number;
}

/** A limit is counted in this many looks, so that a process that stood still itself does not blame Postgres for the time. */
const looks = 20;

/** `silentMs`: how long work may stay unanswered before every connection that received nothing in that time is dropped. */
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
    // Work that begins between two looks has waited for less than its looks.
    const late = [...waiting].filter((work) => look - work.look > looks);
    if (late.length > 0) drop();
    for (const work of late) work.cancel();
    if (waiting.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  const drop = () => {
    for (const [socket, heard] of sockets) {
      // One that was never answered is still connecting: postgres.js has a limit for that.
      if (heard.bytes === 0 || look - heard.look < looks) continue;
      socket.destroy();
      sockets.delete(socket);
      dropped += 1;
      droppedAt = performance.now();
    }
  };

  return {
    open({ host: hosts, port: ports, path }) {
      // postgres.js tries several hosts in turn, and ends a connection to one that is not what the URL asks for.
      const at = host++ % hosts.length;
      const place = { host: hosts[at] ?? 'localhost', port: ports[at] ?? 5432 };
      const socket = typeof path === 'string' ? connectSocket(path) : connectSocket(place);
      sockets.set(socket, { bytes: 0, look });
      // postgres.js checks the server's certificate against the host, and names both in its errors.
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
