// Errors of a call that failed at several endpoints, and the outcome that the metrics record for
// one request.
import type { RpcEndpoint } from './endpoint.ts';
import type { EndpointFault, UnreadableReason } from './errors.ts';
import { EndpointFailure, isUnreadable, RpcError, RpcUnreachable } from './errors.ts';

/**
 * Returns the outcome that the metrics record for a failed request. Returns undefined when the
 * error is a bug of the service.
 */
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

/** "Transaction history is not available from this node", in Agave's `custom_error.rs`. */
const NO_HISTORY = -32011;

/**
 * Combines the errors of a call that failed at every endpoint. An RpcError takes precedence,
 * because a refusal says more about the request than another endpoint's outage. If every endpoint
 * lacks the history, the result is an RpcError, because waiting does not help.
 */
export function errorOfAll(method: string, reasons: readonly unknown[]): unknown {
  const failures = reasons.filter((reason) => reason instanceof EndpointFailure);
  const other = reasons.find((reason) => !(reason instanceof EndpointFailure));
  if (other !== undefined) return other;
  const [first] = failures;
  return first !== undefined && failures.every(({ fault }) => fault === 'no_history')
    ? new RpcError(first.endpoint, method, NO_HISTORY, first.message)
    : new RpcUnreachable(method, failures);
}

/** One request to one endpoint, as the metrics record it. */
export interface ObservedRequest {
  /**
   * Scheme, host and port of the endpoint. Paths and queries are omitted, because they hold API
   * keys.
   */
  readonly endpoint: string;
  readonly method: string;
  readonly outcome: 'ok' | 'refused' | Exclude<EndpointFault, UnreadableReason>;
  readonly seconds: number;
}
