// Takes over the terminal for a screen and restores the terminal afterwards. Also provides the
// terminal's size and key presses.
import { type Key, render, useInput, useStdout } from 'ink';
import { type ReactNode, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';

const ENTER = '\x1b[?1049h\x1b[H';
const LEAVE = '\x1b[?1049l\x1b[?25h';
const WIPE = '\x1b[2J\x1b[H';

export interface Size {
  columns: number;
  rows: number;
}

/**
 * Draws `node` on the terminal's alternate screen until the node exits, SIGTERM or SIGHUP arrives,
 * or `signal` aborts. Resolves when the terminal is restored. Rejects when drawing fails.
 */
export async function showScreen(node: ReactNode, signal?: AbortSignal): Promise<void> {
  const { stdout } = process;
  stdout.write(ENTER);
  // After process.exit or an uncaught exception, Node emits `exit`. The terminal is then restored
  // too.
  const restore = () => void stdout.write(LEAVE);
  process.once('exit', restore);
  // A narrower terminal wraps the lines of the old drawing. ink erases a drawing line by line and
  // would leave the wrapped parts, so the whole screen is cleared.
  const onResize = () => void stdout.write(WIPE);
  stdout.prependListener('resize', onResize);
  const screen = render(node, { stdout: quiet(stdout), exitOnCtrlC: false, patchConsole: false });
  const end = () => screen.unmount();
  // A closed terminal may cause two SIGHUPs, its own and that of its shell. The second one is
  // ignored.
  const hangUp = () => {
    process.on('SIGHUP', () => undefined);
    end();
  };
  process.on('SIGTERM', end).once('SIGHUP', hangUp);
  signal?.addEventListener('abort', end);
  if (signal?.aborted === true) end();
  try {
    await screen.waitUntilExit();
  } finally {
    signal?.removeEventListener('abort', end);
    process.off('SIGTERM', end).off('SIGHUP', hangUp);
    stdout.off('resize', onResize);
    process.off('exit', restore);
    restore();
  }
}

/**
 * Wraps stdout and removes the escape sequence that erases the scrollback, because the scrollback
 * belongs to the user. ink writes this sequence when the number of rows decreases.
 */
function quiet(stdout: NodeJS.WriteStream): NodeJS.WriteStream {
  return new Proxy(stdout, {
    get(target, name) {
      if (name === 'write')
        return (text: string, ...rest: []) =>
          target.write(typeof text === 'string' ? text.replaceAll('\x1b[3J', '') : text, ...rest);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function'
        ? (value as (...args: unknown[]) => unknown).bind(target)
        : value;
    },
  });
}

const sizeOf = ({ columns, rows }: NodeJS.WriteStream): Size => ({
  columns: columns || 80,
  rows: rows || 24,
});

/** Returns the terminal's size. Updates the size when it changes. */
export function useSize(): Size {
  const { stdout } = useStdout();
  const [size, setSize] = useState(() => sizeOf(stdout));
  useEffect(() => {
    const onResize = () => setSize(sizeOf(stdout));
    stdout.on('resize', onResize);
    return () => void stdout.off('resize', onResize);
  }, [stdout]);
  return size;
}

/** Returns the current time, updated once a second. */
export function useNow(): Date {
  const [now, setNow] = useState(() => new Date());
  useEffect(() => {
    const timer = setInterval(() => setNow(new Date()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

const named = {
  upArrow: 'up',
  downArrow: 'down',
  leftArrow: 'left',
  rightArrow: 'right',
  pageUp: 'pageup',
  pageDown: 'pagedown',
  home: 'home',
  end: 'end',
  return: 'enter',
  escape: 'escape',
  backspace: 'backspace',
  // For the backspace key, terminals send the code that ink calls "delete".
  delete: 'backspace',
} as const;

const byCharacter: Record<string, string> = {
  '\r': 'enter',
  '\n': 'enter',
  '\x7f': 'backspace',
  '\b': 'backspace',
  '\x1b': 'escape',
  '\x03': 'ctrl-c',
};

/**
 * Calls `onKey` for each key with the key's name or the typed character. Keys that arrive together
 * are reported one by one.
 */
export function useKeys(onKey: (key: string) => void): void {
  // ink starts to use a new callback only some time after a drawing is shown. A key pressed in the
  // meantime would go to the callback of the old drawing. Therefore ink gets one permanent
  // callback, which calls the latest `onKey`.
  const latest = useRef(onKey);
  useLayoutEffect(() => {
    latest.current = onKey;
  });
  useInput(
    useCallback((input: string, key: Key) => {
      for (const each of keysOf(input, key)) latest.current(each);
    }, []),
  );
}

function keysOf(input: string, key: Key): string[] {
  const name = Object.entries(named).find(([flag]) => key[flag as keyof typeof named])?.[1];
  if (name !== undefined) return [name];
  if (key.ctrl) return input === 'c' ? ['ctrl-c'] : [];
  const characters = Array.from(input).flatMap(
    (character) => byCharacter[character] ?? (character >= ' ' ? [character] : []),
  );
  // ink sets `meta` when an escape and the next key arrive together.
  return key.meta ? ['escape', ...characters] : characters;
}
