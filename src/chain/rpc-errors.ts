/** An RPC endpoint refused the request for a reason that holds at every endpoint. */
export class RpcError extends Error {
  override name = 'RpcError';
  readonly endpoint: string;
  readonly method: string;
  /** JSON-RPC error code, e.g. -32602 invalid params, -32002 failed preflight. */
  readonly code: number;
  /** The error's data as sent, e.g. `err` and `logs` of a failed preflight. */
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
 * Why an endpoint that answered did not give a transaction that we can read: it answered with an error, it does not support the version, the answer has
 * another shape, or it has no such transaction.
 */
export const UNREADABLE_REASONS = ['refused', 'version', 'undecodable', 'missing'] as const;

export type UnreadableReason = (typeof UNREADABLE_REASONS)[number];

/** Whether a fault concerns one transaction: it says nothing about the endpoint's health. */
export const isUnreadable = (fault: EndpointFault): fault is UnreadableReason =>
  UNREADABLE_REASONS.some((reason) => reason === fault);

/** Why one endpoint could not be used. */
export type EndpointFault =
  | UnreadableReason
  | 'unreachable'
  | 'timeout'
  | 'rate_limited'
  | 'http'
  | 'malformed'
  | 'behind'
  | 'unsupported'
  | 'busy';

/** One endpoint could not be used; another may. */
export class EndpointFailure extends Error {
  override name = 'EndpointFailure';
  readonly fault: EndpointFault;
  /** Which one; unknown to those who only see its answer. */
  readonly endpoint: string;
  /** How long the endpoint asks to be left alone, in milliseconds. */
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

/** No endpoint answered; holds the reason of each. The result is unknown and the caller tries again later. */
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
