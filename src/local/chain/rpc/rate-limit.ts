// Limits the number of requests per second, as RPC providers do. Tests set the limit as a fault.
import type { RateLimit } from '../state.ts';
import type { LocalEndpoint } from './params.ts';

const WINDOW_MS = 1_000;

/** The times of the requests that were accepted within the last second, in milliseconds. */
class Window {
  readonly #times: number[] = [];

  /** Returns whether `count` more requests at `now` stay within `limit` requests per second. */
  fits(count: number, limit: number, now: number): boolean {
    while ((this.#times[0] ?? now) <= now - WINDOW_MS) this.#times.shift();
    return this.#times.length + count <= limit;
  }

  take(count: number, now: number): void {
    for (let taken = 0; taken < count; taken += 1) this.#times.push(now);
  }
}

interface Windows {
  readonly requests: Window;
  readonly sends: Window;
}

// For each rate limit, the windows of each endpoint or connection. A new rate limit starts with
// empty windows, so earlier requests do not count.
const windows = new WeakMap<RateLimit, WeakMap<object, Windows>>();

function windowsOf(limit: RateLimit, subject: object): Windows {
  const bySubject = windows.get(limit) ?? new WeakMap<object, Windows>();
  windows.set(limit, bySubject);
  const subjectWindows = bySubject.get(subject) ?? { requests: new Window(), sends: new Window() };
  bySubject.set(subject, subjectWindows);
  return subjectWindows;
}

/**
 * Returns whether a request body exceeds the chain's rate limit. If not, counts the requests of the
 * body toward the limit. `methods` has the method of each request in the body. A body that calls a
 * method named localnet_* or surfnet_* is neither limited nor counted.
 */
export function exceedsRate(
  endpoint: LocalEndpoint,
  connection: object,
  methods: readonly string[],
): boolean {
  const { rate } = endpoint.chain.faults;
  if (rate === null) return false;
  if (methods.some((name) => name.startsWith('localnet_') || name.startsWith('surfnet_')))
    return false;
  const callerWindows = windowsOf(rate, rate.per === 'connection' ? connection : endpoint);
  const now = performance.now();
  const sends = methods.filter((name) => name === 'sendTransaction').length;
  if (
    !callerWindows.requests.fits(methods.length, rate.requests, now) ||
    !callerWindows.sends.fits(sends, rate.sends, now)
  )
    return true;
  callerWindows.requests.take(methods.length, now);
  callerWindows.sends.take(sends, now);
  return false;
}
