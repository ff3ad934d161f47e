// Logging with pino: JSON lines, or pretty lines on a terminal. Code must not log secrets; the
// redaction here is a second line of defence.
import { writeSync } from 'node:fs';
import { pino, stdTimeFunctions, type DestinationStream, type LogFn, type Logger } from 'pino';

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
  if (pretty) {
    const terminal = pino.transport<object>({
      target: 'pino-pretty',
      options: { destination: fd, ignore: 'pid,hostname' },
    }) as NodeJS.EventEmitter & DestinationStream;
    // Writing fails when the terminal is closed. The line then counts as dropped.
    terminal.on('error', () => (dropped += 1));
    return pino(options, terminal);
  }
  return pino(options, { write: (line) => writeLine(fd, line) });
}

/** Milliseconds before the next attempt to write to a full, non-blocking pipe. */
const FULL_PIPE_MS = 10;
const sleeping = new Int32Array(new SharedArrayBuffer(4));

/**
 * Writes synchronously, because an asynchronous destination loses its buffer when the process is
 * killed. A line that cannot be written is dropped and counted. pino's own destination would keep
 * such lines without a limit and emit an error that ends the process.
 */
function writeLine(fd: number, line: string): void {
  const bytes = Buffer.from(line);
  for (let written = 0; written < bytes.length;) {
    try {
      written += writeSync(fd, bytes, written);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
        Atomics.wait(sleeping, 0, 0, FULL_PIPE_MS);
        continue;
      }
      dropped += 1;
      return;
    }
  }
}
