import { type Key, useInput } from 'ink';
import { useCallback, useLayoutEffect, useRef } from 'react';

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

/**
 * Calls back for each key: its name, or the character typed. Keys that arrive together come one by
 * one.
 */
export function useKeys(onKey: (key: string) => void): void {
  // ink takes a new callback some time after it has drawn; a key pressed before that is about the
  // new picture too.
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
