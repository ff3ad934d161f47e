// Shows the progress of a command that takes longer than a second. On a terminal, one line is
// updated. On any other stream, a new line is written every ten seconds.

export interface Progress {
  /** Sets the progress in words, such as "1000 of 5000 queued". */
  update: (words: string) => void;
  /** Removes the progress line from a terminal. Call `end` before any other output. */
  end: () => void;
}

/** Progress is shown only if the work takes longer than this. */
const QUIET_MS = 1000;
/** Interval of the progress on a terminal; LOG_MS is that of other outputs. */
const TERMINAL_MS = 200;
const LOG_MS = 10_000;

/** Starts to show progress. `workName` names the work, such as "comparing with the chain". */
function startProgress(workName: string, stream: NodeJS.WriteStream = process.stderr): Progress {
  const startedAt = performance.now();
  let words = '';
  let shown = false;
  const show = () => {
    const seconds = Math.floor((performance.now() - startedAt) / 1000);
    const line = `${workName}: ${words === '' ? '' : `${words}, `}${seconds} s`;
    stream.write(
      stream.isTTY
        ? `\r\u001b[K${line.slice(0, Math.max(20, stream.columns - 1))}`
        : `billing: ${line}\n`,
    );
    shown = true;
  };
  let timer = setTimeout(function again() {
    show();
    timer = setTimeout(again, stream.isTTY ? TERMINAL_MS : LOG_MS).unref();
  }, QUIET_MS).unref();
  return {
    update(text) {
      words = text;
    },
    end() {
      clearTimeout(timer);
      if (shown && stream.isTTY) stream.write('\r\u001b[K');
      shown = false;
    },
  };
}

/** Runs `work` and shows its progress. The progress line is removed when `work` ends. */
export async function withProgress<T>(
  workName: string,
  work: (progress: Progress) => Promise<T>,
): Promise<T> {
  const progress = startProgress(workName);
  try {
    return await work(progress);
  } finally {
    progress.end();
  }
}
