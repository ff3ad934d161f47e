// Logging with pino: JSON lines, or pretty lines on a terminal. Code must not log secrets; the
// redaction here is a second line of defence.
import { pino, stdTimeFunctions, type DestinationStream, type LogFn, type Logger } from 'pino';
import { LineSink } from './line-sink.ts';

export type Log = Logger;

let dropped = 0;

/** Returns the number of log lines that this process could not write. */
export function droppedLines(): number {
  return dropped;
}

export interface LogOptions {
  level: string;
  pretty: boolean;
  /** Daemons log to stdout; commands log to stderr and keep stdout for their output. */
  stream: 'stdout' | 'stderr';
  /**
   * Returns whether `error` was already reported as part of an outage. The logger then writes no
   * warning or error line that has this error as `err`.
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
  if (pretty) {
    const terminal = pino.transport<object>({
      target: 'pino-pretty',
      options: { destination: fd, ignore: 'pid,hostname' },
    }) as NodeJS.EventEmitter & DestinationStream;
    // Writing fails when the terminal is closed. The line then counts as dropped.
    terminal.on('error', () => (dropped += 1));
    return pino(options, terminal);
  }
  // When a line cannot be written, pino's own destination emits an error that ends the process.
  // LineSink counts the line as dropped instead.
  return pino(options, new LineSink(fd, () => (dropped += 1)));
}
