// Detects and drops connections on which Postgres no longer responds. A frozen server, or a proxy
// that drops packets, sends no FIN. TCP itself needs 15 minutes to detect such a connection.
import type { Socket } from 'node:net';
import type { OpenSocket } from './socket.ts';

export interface Silence {
  /** Opens a socket and watches it. */
  open: OpenSocket;
  /**
   * Registers work that waits for a response. If the wait exceeds `silentMs`, `cancel` is called.
   * The caller ends the wait by calling the returned function.
   */
  begin(cancel: () => void): () => void;
  /** Milliseconds that the oldest waiting work has waited; 0 when no work is waiting. */
  waitingMs(): number;
  /** Number of dropped connections. */
  readonly dropped: number;
  /** Milliseconds since the last dropped connection; Infinity if no connection was dropped. */
  droppedAgoMs(): number;
}

/**
 * `silentMs` is measured as this number of timer ticks. While the process is suspended, no ticks
 * pass, so the suspension does not count as silence of Postgres.
 */
const TICKS = 20;

/**
 * Creates a silence detector. When work has waited for `silentMs`, every connection that received
 * nothing in that time is dropped.
 */
export function createSilence(silentMs: number, openSocket: OpenSocket): Silence {
  const sockets = new Map<Socket, { bytes: number; tick: number }>();
  const waiting = new Set<{ tick: number; cancel: () => void }>();
  const tickMs = silentMs / TICKS;
  let tick = 0;
  let timer: NodeJS.Timeout | undefined;
  let dropped = 0;
  let droppedAt = -Infinity;

  const examine = () => {
    tick += 1;
    for (const [socket, last] of sockets) {
      if (socket.destroyed) sockets.delete(socket);
      else if (socket.bytesRead !== last.bytes)
        sockets.set(socket, { bytes: socket.bytesRead, tick });
    }
    // The first tick may come right after the work began, so only TICKS + 1 ticks prove a wait of
    // silentMs.
    const late = [...waiting].filter((work) => tick - work.tick > TICKS);
    if (late.length > 0) drop();
    for (const work of late) work.cancel();
    if (waiting.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  const drop = () => {
    for (const [socket, last] of sockets) {
      // A socket that has received no bytes is still connecting. Connecting has its own time limit.
      if (last.bytes === 0 || tick - last.tick < TICKS) continue;
      socket.destroy();
      sockets.delete(socket);
      dropped += 1;
      droppedAt = performance.now();
    }
  };

  return {
    open() {
      return openSocket((socket) => sockets.set(socket, { bytes: 0, tick }));
    },
    begin(cancel) {
      const work = { tick, cancel };
      waiting.add(work);
      timer ??= setInterval(examine, tickMs).unref();
      return () => void waiting.delete(work);
    },
    waitingMs() {
      let oldest = tick;
      for (const work of waiting) oldest = Math.min(oldest, work.tick);
      return (tick - oldest) * tickMs;
    },
    get dropped() {
      return dropped;
    },
    droppedAgoMs: () => performance.now() - droppedAt,
  };
}
