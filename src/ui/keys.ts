import { useInput } from 'ink';

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
  // What terminals send for the backspace key is this one to ink.
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

/** Calls back for each key: its name, or the character typed. Keys that arrive together come one by one. */
export function useKeys(onKey: (key: string) => void): void {
  useInput((input, key) => {
    const name = Object.entries(named).find(([flag]) => key[flag as keyof typeof named])?.[1];
    if (name !== undefined) {
      onKey(name);
      return;
    }
    if (key.ctrl) {
      if (input === 'c') onKey('ctrl-c');
      return;
    }
    // An escape and the key after it, read at once.
    if (key.meta) onKey('escape');
    for (const character of input) {
      const known = byCharacter[character];
      if (known !== undefined) onKey(known);
      else if (character >= ' ') onKey(character);
    }
  });
}
