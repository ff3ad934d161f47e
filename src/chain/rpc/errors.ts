/** An RPC endpoint refused the request for a reason that holds at every endpoint. */
export class RpcError extends Error {
  override name = 'RpcError';
  readonly endpoint: string;
  readonly method: string;
  /** JSON-RPC error code, e.g. -32602 invalid params, -32002 failed preflight. */
  readonly code: number;
  /** The `data` of the JSON-RPC error, e.g. `err` and `logs` of a failed preflight. */
  readonly data: unknown;

  constructor(endpoint: string, method: string, code: number, message: string, data?: unknown) {
    super(`${endpoint} refused ${method}: ${message} (${code})`);
    this.endpoint = endpoint;
    this.method = method;
    this.code = code;
    this.data = data;
  }
}

/**
 * Why an endpoint responded without a readable transaction. `refused`: an error response.
 * `version`: an unsupported transaction version. `undecodable`: a response of an unexpected shape.
 * `missing`: the endpoint does not have the transaction.
 */
export const UNREADABLE_REASONS = ['refused', 'version', 'undecodable', 'missing'] as const;

export type UnreadableReason = (typeof UNREADABLE_REASONS)[number];

/** Whether the fault concerns a single transaction and leaves the endpoint's health unchanged. */
export const isUnreadable = (fault: EndpointFault): fault is UnreadableReason =>
  UNREADABLE_REASONS.some((reason) => reason === fault);

export type EndpointFault =
  | UnreadableReason
  | 'unreachable'
  | 'timeout'
  | 'rate_limited'
  | 'http'
  | 'malformed'
  | 'behind'
  | 'no_history'
  | 'unsupported'
  | 'busy';

/**
 * Whether the endpoint responds, but does not have the data yet (`behind`) or does not keep it
 * (`no_history`).
 */
export const lacksData = (fault: EndpointFault): boolean =>
  fault === 'behind' || fault === 'no_history';

/** A call to one endpoint failed; another endpoint may succeed. */
export class EndpointFailure extends Error {
  override name = 'EndpointFailure';
  readonly fault: EndpointFault;
  /** Name of the endpoint. Empty when the error is thrown by code that only parses a response. */
  readonly endpoint: string;
  /** Milliseconds for which the endpoint asked not to be called. */
  readonly pauseMs: number | undefined;

  constructor(
    fault: EndpointFault,
    message: string,
    options: { endpoint?: string; pauseMs?: number | undefined; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.fault = fault;
    this.endpoint = options.endpoint ?? '';
    this.pauseMs = options.pauseMs;
  }
}

/**
 * No endpoint responded to a call. `failures` has the failure of each endpoint. The result of the
 * call is unknown, so the caller retries later.
 */
export class RpcUnreachable extends Error {
  override name = 'RpcUnreachable';
  readonly method: string;
  readonly failures: readonly {
    readonly endpoint: string;
    readonly fault: EndpointFault;
    readonly reason: string;
  }[];

  constructor(method: string, failures: readonly EndpointFailure[]) {
    const each = failures.map(({ endpoint, message }) => `${endpoint}: ${message}`).join('; ');
    super(`no Solana RPC endpoint answered ${method}: ${each}`);
    this.method = method;
    this.failures = failures.map(({ endpoint, fault, message }) => ({
      endpoint,
      fault,
      reason: message,
    }));
  }
}
