import { useCallback, useEffect, useRef, useState } from 'react';

export interface PagedList<T> {
  rows: readonly T[];
  /** Whether the first page was read. */
  loaded: boolean;
  busy: boolean;
  error: unknown;
  /** Whether another page may follow. */
  more: boolean;
  next: () => void;
  /** Reads the first page again and drops all further pages. */
  refresh: () => void;
}

/**
 * Reads a keyset-paginated list page by page. Memoise `open`: a new `open` starts from the first
 * page. With `everyMs`, the list is read again at this interval (ms). This polling pauses while the
 * browser tab is hidden or more than one page of the list is shown.
 */
export function usePages<T>(
  open: () => AsyncGenerator<T[], void, undefined>,
  everyMs?: number,
): PagedList<T> {
  const [state, setState] = useState<{ rows: T[]; loaded: boolean; more: boolean }>({
    rows: [],
    loaded: false,
    more: false,
  });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const source = useRef<AsyncGenerator<T[], void, undefined>>(undefined);
  const pagesShown = useRef(0);

  const take = useCallback(async (from: AsyncGenerator<T[], void, undefined>, first: boolean) => {
    setBusy(true);
    try {
      const { value, done } = await from.next();
      if (source.current !== from) return;
      const page = done === true ? [] : value;
      pagesShown.current = first ? 1 : pagesShown.current + 1;
      setError(undefined);
      setState((before) => ({
        rows: first ? page : [...before.rows, ...page],
        loaded: true,
        more: page.length > 0 && page.length % 20 === 0,
      }));
    } catch (failure) {
      if (source.current === from) setError(failure);
    } finally {
      if (source.current === from) setBusy(false);
    }
  }, []);

  const refresh = useCallback(() => {
    const from = open();
    source.current = from;
    void take(from, true);
  }, [open, take]);

  useEffect(() => {
    setState({ rows: [], loaded: false, more: false });
    refresh();
    const timer =
      everyMs === undefined
        ? undefined
        : setInterval(() => {
            if (document.visibilityState === 'visible' && pagesShown.current <= 1) refresh();
          }, everyMs);
    return () => {
      clearInterval(timer);
      source.current = undefined;
    };
  }, [refresh, everyMs]);

  return {
    ...state,
    busy,
    error,
    next: () => {
      if (source.current !== undefined) void take(source.current, false);
    },
    refresh,
  };
}
