// Takes the whole terminal for a screen and restores it afterwards; its size and its keys.
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
 * Draws `node` on the terminal's alternate screen until it exits, the process gets a signal to end,
 * or `signal` aborts. Resolves once the terminal is restored. Rejects with an error of the drawing.
 */
export async function showScreen(node: ReactNode, signal?: AbortSignal): Promise<void> {
  const { stdout } = process;
  stdout.write(ENTER);
  // On "exit" too, which comes after process.exit and an uncaught exception.
  const restore = () => void stdout.write(LEAVE);
  process.once('exit', restore);
  // A terminal that became narrower wraps the old picture, and it cannot be erased line by line.
  const onResize = () => void stdout.write(WIPE);
  stdout.prependListener('resize', onResize);
  const screen = render(node, { stdout: quiet(stdout), exitOnCtrlC: false, patchConsole: false });
  const end = () => screen.unmount();
  process.on('SIGTERM', end).on('SIGHUP', end);
  signal?.addEventListener('abort', end);
  if (signal?.aborted === true) end();
  try {
    await screen.waitUntilExit();
  } finally {
    signal?.removeEventListener('abort', end);
    process.off('SIGTERM', end).off('SIGHUP', end);
    stdout.off('resize', onResize);
    process.off('exit', restore);
    restore();
  }
}

/**
 * The terminal without the sequence that erases the scrollback: ink sends it when a terminal gets
 * lower, and the scrollback is the user's.
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

/** The terminal's current size. */
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

/** The current time, updated once a second. */
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
  // Terminals send the code of this key for backspace.
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

/** Calls `onKey` with the name of each key, or the typed character, also for keys read at once. */
export function useKeys(onKey: (key: string) => void): void {
  // ink installs a new callback some time after it has drawn. A key pressed in between belongs to
  // the new picture, so the callback given to ink never changes and calls the latest one.
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
  // An escape and the next key, received together.
  return key.meta ? ['escape', ...characters] : characters;
}
