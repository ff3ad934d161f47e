/** The error codes of docs/contract.md. */
export type BillingErrorCode =
  | 'UNAUTHORIZED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'VALIDATION_ERROR'
  | 'CONFLICT'
  | 'RATE_LIMITED'
  | 'INTERNAL_ERROR';

/** The service refused a request. What never got an answer (no connection, aborted) is thrown as `fetch` throws it. */
export class BillingError extends Error {
  override readonly name = 'BillingError';
  /** One of the service's codes; `undefined` when something else answered, such as a proxy. */
  readonly code: BillingErrorCode | undefined;
  readonly status: number;
  /** VALIDATION_ERROR: which fields, and what would be right. */
  readonly details: readonly { path: string; message: string }[];
  /** RATE_LIMITED: the seconds to wait. */
  readonly retryAfter: number | undefined;
  /** Name it when you report a fault. */
  readonly requestId: string | undefined;

  constructor(
    message: string,
    fields: Pick<BillingError, 'code' | 'status' | 'details' | 'retryAfter' | 'requestId'>,
  ) {
    super(message);
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

/** The error that an answer tells of. */
export async function errorOf(response: Response): Promise<BillingError> {
  const { status, headers } = response;
  const retryAfter = headers.get('retry-after');
  const told = await refusalOf(response);
  return new BillingError(told?.message ?? `The service answered ${status} without saying why.`, {
    code: told?.code,
    status,
    details: told?.details ?? [],
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
