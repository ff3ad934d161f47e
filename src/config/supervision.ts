// Environment variables that a supervisor sets for a daemon.
/** systemd's notification settings for a service (sd_notify(3), sd_watchdog_enabled(3)). */
export interface Supervision {
  /** The notification socket. */
  readonly socket: string;
  /** Watchdog interval in milliseconds; undefined without a watchdog. */
  readonly watchdogMs: number | undefined;
  /** PATH for finding systemd-notify. */
  readonly path: string;
}

/**
 * Reads the environment that systemd sets for Type=notify; undefined without a notification socket.
 */
export function supervision(
  env: Record<string, string | undefined> = process.env,
): Supervision | undefined {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: interval, WATCHDOG_PID: pid } = env;
  if (socket === undefined || socket === '') return undefined;
  const watched =
    /^[1-9]\d*$/.test(interval ?? '') && (pid === undefined || pid === String(process.pid));
  return {
    socket,
    watchdogMs: watched ? Number(interval) / 1000 : undefined,
    path: env.PATH ?? '/usr/bin:/bin',
  };
}
