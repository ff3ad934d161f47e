/** The error codes of the service. docs/contract.md lists them. */
export type BillingErrorCode =
  | 'UNAUTHORIZED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'VALIDATION_ERROR'
  | 'CONFLICT'
  | 'RATE_LIMITED'
  | 'INTERNAL_ERROR';

/** The request that failed: its method and URL. */
export interface Asked {
  /** HTTP method: GET, POST, PATCH or DELETE. */
  method: string;
  url: string;
}

/**
 * Thrown when the service did not respond: there was no connection, a timeout, or a response of
 * another server. `cause` is the original error.
 */
export class BillingConnectionError extends Error implements Asked {
  override readonly name = 'BillingConnectionError';
  readonly method: string;
  readonly url: string;
  /** Why there was no response. `message` adds the request to this reason. */
  readonly reason: string;
  /**
   * HTTP status, if a proxy or another server responded in place of the service. Undefined if no
   * complete response arrived.
   */
  readonly status: number | undefined;

  constructor({ method, url }: Asked, cause: unknown, status?: number) {
    const reason = causeOf(cause);
    super(`${method} ${url} got no answer of the service: ${reason}`, { cause });
    this.method = method;
    this.url = url;
    this.reason = reason;
    this.status = status;
  }
}

/**
 * Returns the message of the innermost cause of an error. Node's fetch throws "fetch failed", and
 * only the cause of that error names the problem.
 */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.cause !== undefined) return causeOf(error.cause);
  if (error instanceof AggregateError && error.message === '')
    return error.errors.map(causeOf).join('; ');
  return error.message;
}

/**
 * Thrown when the service refused a request. If the caller aborts a request with a signal, the call
 * rejects with the reason of that signal instead.
 */
export class BillingError extends Error implements Asked {
  override readonly name = 'BillingError';
  readonly method: string;
  readonly url: string;
  /**
   * The service's explanation of the refusal. `message` adds the request and the status to this
   * explanation.
   */
  readonly reason: string;
  /** The error code of the service. Undefined when a proxy or another server responded. */
  readonly code: BillingErrorCode | undefined;
  readonly status: number;
  /** For the code VALIDATION_ERROR: each invalid field, with the rule that the field violates. */
  readonly details: readonly { path: string; message: string }[];
  /** For the code RATE_LIMITED: seconds to wait before the next request. */
  readonly retryAfter: number | undefined;
  /** Id of the request in the service's logs. Include the id when you report a problem. */
  readonly requestId: string | undefined;

  constructor(
    reason: string,
    fields: Asked & Pick<BillingError, 'code' | 'status' | 'details' | 'retryAfter' | 'requestId'>,
  ) {
    super(`${reason} (${fields.method} ${fields.url} answered ${fields.status})`);
    this.reason = reason;
    this.method = fields.method;
    this.url = fields.url;
    this.code = fields.code;
    this.status = fields.status;
    this.details = fields.details;
    this.retryAfter = fields.retryAfter;
    this.requestId = fields.requestId;
  }
}

const codes: readonly string[] = [
  'UNAUTHORIZED',
  'FORBIDDEN',
  'NOT_FOUND',
  'METHOD_NOT_ALLOWED',
  'VALIDATION_ERROR',
  'CONFLICT',
  'RATE_LIMITED',
  'INTERNAL_ERROR',
] satisfies BillingErrorCode[];

/** Builds the error for a response that is not a success. */
export async function errorOf(asked: Asked, response: Response): Promise<BillingError> {
  const { status, headers } = response;
  const retryAfter = headers.get('retry-after');
  const refusal = await refusalOf(response);
  return new BillingError(refusal?.message ?? 'It does not say why; is it the billing API?', {
    ...asked,
    code: refusal?.code,
    status,
    details: refusal?.details ?? [],
    retryAfter: retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined,
    requestId: headers.get('x-request-id') ?? undefined,
  });
}

interface Refusal {
  code: BillingErrorCode | undefined;
  message: string;
  details: { path: string; message: string }[];
}

async function refusalOf(response: Response): Promise<Refusal | undefined> {
  try {
    const { error } = (await response.json()) as {
      error?: { code?: string; message?: string; details?: Refusal['details'] };
    };
    if (typeof error?.message !== 'string') return undefined;
    const code = codes.find((known) => known === error.code) as BillingErrorCode | undefined;
    return { code, message: error.message, details: error.details ?? [] };
  } catch {
    return undefined;
  }
}
