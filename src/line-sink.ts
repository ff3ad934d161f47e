// Writes log lines to a file descriptor. If a line cannot be written, for example because the disk
// is full, the line is dropped and the process continues.
import { writeSync } from 'node:fs';

/** Milliseconds before the next attempt to write to a full, non-blocking pipe. */
const FULL_PIPE_MS = 10;
const sleeping = new Int32Array(new SharedArrayBuffer(4));
const NEWLINE = Buffer.from('\n');

export class LineSink {
  readonly #fd: number;
  readonly #onDropped: () => void;
  /**
   * Whether the last write stopped in the middle of a line. The next write then starts with a
   * newline, so that its first line is not appended to the incomplete line.
   */
  #isTorn = false;

  /** `onDropped` is called for each call of write() whose bytes were not all written. */
  constructor(fd: number, onDropped: () => void = () => undefined) {
    this.#fd = fd;
    this.#onDropped = onDropped;
  }

  /**
   * Writes the lines synchronously. An asynchronous destination buffers lines. If the process is
   * killed, the buffer is lost. If the lines cannot be written, the buffer grows without limit.
   */
  write(lines: string | Buffer): void {
    const bytes = Buffer.from(lines);
    const line = this.#isTorn ? Buffer.concat([NEWLINE, bytes]) : bytes;
    for (let written = 0; written < line.length;) {
      try {
        written += writeSync(this.#fd, line, written);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EAGAIN') {
          Atomics.wait(sleeping, 0, 0, FULL_PIPE_MS);
          continue;
        }
        this.#isTorn ||= written > 0;
        this.#onDropped();
        return;
      }
    }
    this.#isTorn = false;
  }
}
