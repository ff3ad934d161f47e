// Detects connections on which Postgres no longer responds, and drops them. A frozen server, or a
// proxy that drops packets, sends no FIN, and TCP itself needs a quarter of an hour to detect it.
import type { Socket } from 'node:net';
import type { OpenSocket } from './socket.ts';

export interface Silence {
  /** Opens a socket that is watched from then on. */
  open: OpenSocket;
  /**
   * Registers work as without a response until the returned function is called. Runs `cancel` if
   * that takes longer than the limit.
   */
  begin(cancel: () => void): () => void;
  /** Age of the oldest work without a response in ms; 0 without any. */
  waitingMs(): number;
  /** Number of dropped connections. */
  readonly dropped: number;
  /** Milliseconds since the last drop; Infinity before the first. */
  droppedAgoMs(): number;
}

/**
 * The limit is counted in this many timer ticks, so that a process that was suspended does not
 * blame Postgres for the time.
 */
const TICKS = 20;

/**
 * When work has no response for `silentMs`, every connection that received nothing in that time is
 * dropped.
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
    // Work that began between two ticks has waited for less than its number of ticks.
    const late = [...waiting].filter((work) => tick - work.tick > TICKS);
    if (late.length > 0) drop();
    for (const work of late) work.cancel();
    if (waiting.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  const drop = () => {
    for (const [socket, last] of sockets) {
      // A socket without any bytes is still connecting; connect_timeout of postgres.js covers that.
      if (last.bytes === 0 || tick - last.tick < TICKS) continue;
      socket.destroy();
      sockets.delete(socket);
      dropped += 1;
      droppedAt = performance.now();
    }
  };

  return {
    open(target) {
      return openSocket(target, (socket) => sockets.set(socket, { bytes: 0, tick }));
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
