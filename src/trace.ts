// Trace ids in the form of W3C Trace Context. The header `traceparent` of a request is stored with
// the events that the request causes, and sent to the receivers of these events.
import { AsyncLocalStorage } from 'node:async_hooks';

const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

export interface Trace {
  /** The value of the header `traceparent`, in version 00. */
  traceparent: string;
  traceId: string;
}

const current = new AsyncLocalStorage<Trace>();

/** Reads the header `traceparent`. Returns undefined if the header is missing or invalid. */
export function parseTraceparent(header: string | string[] | undefined): Trace | undefined {
  if (typeof header !== 'string') return undefined;
  const [, version, traceId = '', parentId = '', flags = '', more] = FORM.exec(header) ?? [];
  // A later version may append fields to those of version 00.
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined))
    return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return undefined;
  return { traceparent: `00-${traceId}-${parentId}-${flags}`, traceId };
}

/** Calls `run`. All events that `run` writes belong to `trace`, even after an `await`. */
export function withTrace<T>(trace: Trace, run: () => T): T {
  return current.run(trace, run);
}

/** The traceparent of the current request. Null outside of a request with a trace. */
export const currentTraceparent = (): string | null => current.getStore()?.traceparent ?? null;

/**
 * Returns the traceparent of an event that no traced request caused. The event's id is used as the
 * trace id.
 */
export function ownTraceparent(eventId: string): string {
  const traceId = eventId.replaceAll('-', '');
  return `00-${traceId}-${traceId.slice(16)}-01`;
}
