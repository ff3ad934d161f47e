// The two kinds of error that are shown to people. Any other error is a bug and keeps its stack trace.

/** Codes of the error envelope (docs/contract.md, Errors). */
export type ErrorCode =
  | 'UNAUTHORIZED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'VALIDATION_ERROR'
  | 'CONFLICT'
  | 'RATE_LIMITED'
  | 'INTERNAL_ERROR';

/** One fault of an input: where it is and what would be right. */
export interface Fault {
  path: string;
  message: string;
}

/** A refusal with the code that the API client gets. */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly details: readonly Fault[] | undefined;

  constructor(code: ErrorCode, message: string, details?: readonly Fault[]) {
    super(message);
    this.name = 'ServiceError';
    this.code = code;
    this.details = details;
  }
}

/** An operator's mistake or an outage: the command line prints the message alone and exits with `exitCode` (1 failed, 2 wrong usage). */
export class OperatorError extends Error {
  readonly exitCode: 1 | 2;

  constructor(message: string, exitCode: 1 | 2 = 1, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OperatorError';
    this.exitCode = exitCode;
  }
}

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '')
    return error.errors.map(messageOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}
