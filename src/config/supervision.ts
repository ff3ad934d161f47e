// Environment variables that a supervisor sets for a daemon.
/** What systemd tells a service about itself (sd_notify(3), sd_watchdog_enabled(3)). */
export interface Supervision {
  /** The socket that takes messages. */
  readonly socket: string;
  /** Milliseconds within which a sign of life is expected; undefined when none is. */
  readonly watchdogMs: number | undefined;
  /** Where systemd-notify is looked for. */
  readonly path: string;
}

/** Read from the environment that systemd gives with Type=notify; undefined when no supervisor asks to be told. */
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
