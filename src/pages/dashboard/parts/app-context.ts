// The location in the dashboard: session, app and view.
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react';
import { BillingError } from '../../../client/error.ts';
import type { components } from '../../../client/openapi.ts';
import type { Plan, Session } from '../../shared/session.ts';
import { type Filters, formatHash, type Hash, readHash } from './hash.ts';

export type App = components['schemas']['App'];

export interface AppContext {
  readonly session: Session;
  readonly app: App;
}

/** Interval (ms) at which the page polls a list whose rows change. */
export const LIVE_MS = 10_000;

/**
 * Returns the parsed fragment of the URL. Renders the component again when the fragment changes.
 */
export function useHash(): Hash {
  const hash = useSyncExternalStore(
    (changed) => {
      addEventListener('hashchange', changed);
      return () => removeEventListener('hashchange', changed);
    },
    () => location.hash,
  );
  return useMemo(() => readHash(hash), [hash]);
}

/** Changes filters of the view in the URL's fragment. A value that is undefined clears a filter. */
export function changeFilters(changed: Filters): void {
  const hash = readHash(location.hash);
  history.replaceState(null, '', formatHash({ ...hash, filters: { ...hash.filters, ...changed } }));
  // history.replaceState() causes no hashchange event, so the page would not show the change.
  dispatchEvent(new HashChangeEvent('hashchange'));
}

/**
 * Returns the value of the filter `name`, and a function that changes the value. A value that is
 * not one of the options is returned as undefined.
 */
export function useChoice<T extends string>(
  name: string,
  options: readonly T[],
): readonly [chosen: T | undefined, choose: (value: T | undefined) => void] {
  const { filters } = useHash();
  const chosen = options.find((option) => option === filters[name]);
  return [chosen, (value) => changeFilters({ [name]: value })];
}

/**
 * Sends a request and returns its response. Repeats the request when `again` is called, after the
 * time in Retry-After when the service refuses, and every `everyMs` milliseconds while the page is
 * visible. If `ask` is undefined, sends no request.
 */
export function useResponse<T>(
  ask: (() => Promise<T>) | undefined,
  everyMs?: number,
): {
  data: T | undefined;
  error: unknown;
  again: () => void;
} {
  const [data, setData] = useState<T>();
  const [error, setError] = useState<unknown>();
  const [turn, setTurn] = useState(0);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (ask === undefined) return;
    let live = true;
    let timer: number | undefined;
    ask().then(
      (found) => {
        if (!live) return;
        setData(found);
        setError(undefined);
      },
      (failure: unknown) => {
        if (!live) return;
        setError(failure);
        if (failure instanceof BillingError && failure.retryAfter !== undefined)
          timer = window.setTimeout(again, failure.retryAfter * 1000);
      },
    );
    return () => {
      live = false;
      clearTimeout(timer);
    };
  }, [ask, turn, again]);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') again();
    }, everyMs);
    return () => clearInterval(timer);
  }, [again, everyMs]);
  return { data, error, again };
}

/**
 * Returns all plans of an app, or an empty list until they are read. Requests the plans only when
 * `isWanted` is true.
 */
export const usePlans = (context: AppContext, isWanted = true): readonly Plan[] =>
  useLoadedPlans(context, isWanted) ?? [];

/** Returns all plans of an app. Returns undefined until they are read. */
export function useLoadedPlans(
  { session, app }: AppContext,
  isWanted = true,
): readonly Plan[] | undefined {
  const ask = useCallback(async () => {
    const found: Plan[] = [];
    const path = { appId: app.id };
    const query = { limit: 100 };
    for await (const plan of session.client.list('/merchant/apps/{appId}/plans', { path, query }))
      found.push(plan);
    return found;
  }, [session, app.id]);
  return useResponse(isWanted ? ask : undefined).data;
}
