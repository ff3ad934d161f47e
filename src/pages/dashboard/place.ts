// The location in the dashboard: session, app and view.
import { useCallback, useEffect, useState, useSyncExternalStore } from 'react';
import type { components } from '../../client/openapi.ts';
import type { Plan, Session } from '../shared/session.ts';

export type App = components['schemas']['App'];

export interface Place {
  readonly session: Session;
  readonly app: App;
}

/** Milliseconds between two reads of a list whose rows change while the page shows them. */
export const LIVE_MS = 10_000;

/**
 * Returns the parts of the URL's fragment. For `#/subscriptions/<id>` the parts are "subscriptions"
 * and the id.
 */
export function useHash(): readonly string[] {
  const hash = useSyncExternalStore(
    (changed) => {
      addEventListener('hashchange', changed);
      return () => removeEventListener('hashchange', changed);
    },
    () => location.hash,
  );
  return hash
    .replace(/^#\/?/, '')
    .split('/')
    .filter((part) => part !== '')
    .slice(0, 2);
}

/**
 * Sends a request and returns its response. The request is repeated when `again` is called, and
 * every `everyMs` milliseconds while the page is visible.
 */
export function useResponse<T>(
  ask: () => Promise<T>,
  everyMs?: number,
): {
  data: T | undefined;
  error: unknown;
  again: () => void;
} {
  const [data, setData] = useState<T>();
  const [error, setError] = useState<unknown>();
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    let live = true;
    ask().then(
      (found) => {
        if (!live) return;
        setData(found);
        setError(undefined);
      },
      (failure: unknown) => live && setError(failure),
    );
    return () => {
      live = false;
    };
  }, [ask, turn]);
  const again = useCallback(() => setTurn((before) => before + 1), []);
  useEffect(() => {
    if (everyMs === undefined) return;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') again();
    }, everyMs);
    return () => clearInterval(timer);
  }, [again, everyMs]);
  return { data, error, again };
}

/** Returns all plans of an app. Lists show the plans' names, and filters offer the plans. */
export function usePlans({ session, app }: Place): readonly Plan[] {
  const ask = useCallback(async () => {
    const found: Plan[] = [];
    const path = { appId: app.id };
    const query = { limit: 100 };
    for await (const plan of session.client.list('/merchant/apps/{appId}/plans', { path, query }))
      found.push(plan);
    return found;
  }, [session, app.id]);
  return useResponse(ask).data ?? [];
}
