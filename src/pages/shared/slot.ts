import { useSyncExternalStore } from 'react';

interface Slot<T> {
  readonly current: T | undefined;
  show(next: T | undefined): void;
  /** Returns the current value, and renders the component again when the value changes. */
  useCurrent(): T | undefined;
}

/** Holds a value that code outside of React passes to a component, such as a dialog to show. */
export function createSlot<T>(): Slot<T> {
  let current: T | undefined;
  const listeners = new Set<() => void>();
  const subscribe = (changed: () => void) => {
    listeners.add(changed);
    return () => listeners.delete(changed);
  };
  return {
    get current() {
      return current;
    },
    show(next) {
      current = next;
      for (const listener of listeners) listener();
    },
    useCurrent: () => useSyncExternalStore(subscribe, () => current),
  };
}
