// Reads the environment variables that systemd sets for a daemon.
/** systemd's notification settings for a service (sd_notify(3), sd_watchdog_enabled(3)). */
export interface Supervision {
  /** Path of the notification socket. */
  readonly socket: string;
  /** Watchdog interval in milliseconds; undefined when no watchdog is configured. */
  readonly watchdogMs: number | undefined;
  /** The PATH in which systemd-notify is searched. */
  readonly path: string;
}

/**
 * Reads the variables that systemd sets for a service with Type=notify. Returns undefined when no
 * notification socket is set.
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
