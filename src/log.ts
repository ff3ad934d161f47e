// pino: JSON lines, or pretty on a terminal. Code never logs secrets; the redaction is a second
// line of defence.
import { pino, stdTimeFunctions, type LogFn, type Logger } from 'pino';

export type Log = Logger;

export interface LogOptions {
  level: string;
  pretty: boolean;
  /** Daemons log to stdout; commands log to stderr and keep stdout for their output. */
  stream: 'stdout' | 'stderr';
  /**
   * Lines with an `err` for which this is true are dropped, because they are reported as one
   * outage.
   */
  isReported?: (error: unknown) => boolean;
}

/** A logger named after the daemon or command. */
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
  // Synchronous: an asynchronous destination loses its buffer when the process is killed, and keeps
  // the process running when its reader has exited (sonic-boom's flushSync retries an EPIPE
  // forever).
  return pino(options, pino.destination({ fd, sync: true }));
}
