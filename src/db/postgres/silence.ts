// Detects connections on which Postgres no longer answers, and drops them. A frozen server, or a
// proxy that drops packets, sends no FIN, and TCP itself needs a quarter of an hour to notice.
import type { Socket } from 'node:net';
import type { OpenSocket } from './socket.ts';

export interface Silence {
  /** Opens a socket that is watched from then on. */
  open: OpenSocket;
  /**
   * Registers work as unanswered until the returned function is called. Runs `cancel` if that takes
   * longer than the limit.
   */
  begin(cancel: () => void): () => void;
  /** Age of the oldest unanswered work in ms; 0 without any. */
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
const READS = 20;

/**
 * When work stays unanswered for `silentMs`, every connection that received nothing in that time is
 * dropped.
 */
export function createSilence(silentMs: number, openSocket: OpenSocket): Silence {
  const sockets = new Map<Socket, { bytes: number; look: number }>();
  const waiting = new Set<{ look: number; cancel: () => void }>();
  const lookMs = silentMs / READS;
  let look = 0;
  let timer: NodeJS.Timeout | undefined;
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
    const late = [...waiting].filter((work) => look - work.look > READS);
    if (late.length > 0) drop();
    for (const work of late) work.cancel();
    if (waiting.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  };
  const drop = () => {
    for (const [socket, heard] of sockets) {
      // A socket without any bytes is still connecting; connect_timeout of postgres.js covers that.
      if (heard.bytes === 0 || look - heard.look < READS) continue;
      socket.destroy();
      sockets.delete(socket);
      dropped += 1;
      droppedAt = performance.now();
    }
  };

  return {
    open(target) {
      return openSocket(target, (socket) => sockets.set(socket, { bytes: 0, look }));
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
