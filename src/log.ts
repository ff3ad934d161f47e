// pino: JSON lines, or pretty on a terminal. Secrets are never passed to it; the redaction is the second line of defence.
import { pino, stdTimeFunctions, type Logger } from 'pino';

export type Log = Logger;

/** A logger named after the daemon or command, writing to stderr when `stream` says so (commands keep stdout for their answer). */
export function createLog(name: string, { level, pretty, stream }: { level: string; pretty: boolean; stream: 'stdout' | 'stderr' }): Log {
  const fd = stream === 'stdout' ? 1 : 2;
  const options = {
    name,
    level,
    timestamp: stdTimeFunctions.isoTime,
    redact: {
      paths: [
        'authorization',
        '*.authorization',
        '*.*.authorization',
        'secret',
        '*.secret',
        'secretKey',
        '*.secretKey',
        'password',
        '*.password',
      ],
      censor: '[redacted]',
    },
  };
  if (pretty) return pino({ ...options, transport: { target: 'pino-pretty', options: { destination: fd, ignore: 'pid,hostname' } } });
  // Synchronous: what an asynchronous destination still holds at the exit keeps the process for ever when its reader is gone (sonic-boom's
  // flushSync repeats an EPIPE without end), and is lost when it is killed.
  return pino(options, pino.destination({ fd, sync: true }));
}
