// Errors of calls to several endpoints, and the metric's outcome of one request.
import type { RpcEndpoint } from './endpoint.ts';
import type { EndpointFault, UnreadableReason } from './errors.ts';
import { EndpointFailure, isUnreadable, RpcError, RpcUnreachable } from './errors.ts';

/** The metric's outcome of a failed request; undefined for a bug. */
export function outcomeOf(error: unknown): ObservedRequest['outcome'] | undefined {
  if (error instanceof RpcError) return 'refused';
  if (!(error instanceof EndpointFailure)) return undefined;
  const { fault } = error;
  if (!isUnreadable(fault)) return fault;
  return fault === 'missing' ? 'ok' : 'refused';
}

export function tooSlow(
  method: string,
  left: Iterable<RpcEndpoint>,
  failures: Map<RpcEndpoint, EndpointFailure>,
  wait: number,
): RpcUnreachable {
  const limited = () =>
    new EndpointFailure('rate_limited', `may not be asked for ${Math.ceil(wait)} ms`);
  for (const endpoint of left) if (!failures.has(endpoint)) failures.set(endpoint, limited());
  return new RpcUnreachable(method, [...failures.values()]);
}

/**
 * The error of a call that failed at every endpoint. An RpcError takes precedence, because it says
 * more than another endpoint's outage.
 */
export function errorOfAll(method: string, reasons: readonly unknown[]): unknown {
  const failures = reasons.filter((reason) => reason instanceof EndpointFailure);
  return (
    reasons.find((reason) => !(reason instanceof EndpointFailure)) ??
    new RpcUnreachable(method, failures)
  );
}

/** One request to one endpoint. */
export interface ObservedRequest {
  /** Scheme, host and port: paths and queries of RPC URLs hold keys. */
  readonly endpoint: string;
  readonly method: string;
  readonly outcome: 'ok' | 'refused' | Exclude<EndpointFault, UnreadableReason>;
  readonly seconds: number;
}
