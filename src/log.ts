// Logging with pino: JSON lines, or pretty lines on a terminal. Code must not log secrets; the
// redaction here is a second line of defence.
import { pino, stdTimeFunctions, type LogFn, type Logger } from 'pino';

export type Log = Logger;

export interface LogOptions {
  level: string;
  pretty: boolean;
  /** Daemons log to stdout; commands log to stderr and keep stdout for their output. */
  stream: 'stdout' | 'stderr';
  /**
   * Tells whether an error is already reported as part of an outage. Log lines with such an `err`
   * are dropped.
   */
  isReported?: (error: unknown) => boolean;
}

/** Creates a logger with the name of the daemon or command. */
export function createLog(
  name: string,
  { level, pretty, stream, isReported = () => false }: LogOptions,
): Log {
  const fd = stream === 'stdout' ? 1 : 2;
  const options = {
    name,
    level,
    timestamp: stdTimeFunctions.isoTime,
    hooks: {
      logMethod(this: Log, args: Parameters<LogFn>, method: LogFn, lineLevel: number) {
        const [fields] = args as [unknown];
        const isError = typeof fields === 'object' && fields !== null && 'err' in fields;
        if (lineLevel < 40 || !isError || !isReported(fields.err)) method.apply(this, args);
      },
    },
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
  if (pretty)
    return pino({
      ...options,
      transport: { target: 'pino-pretty', options: { destination: fd, ignore: 'pid,hostname' } },
    });
  // Writes are synchronous. An asynchronous destination loses its buffer when the process is
  // killed. It also keeps the process running after its reader has exited, because sonic-boom's
  // flushSync retries an EPIPE forever.
  return pino(options, pino.destination({ fd, sync: true }));
}
