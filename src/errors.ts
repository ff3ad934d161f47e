// Errors whose message is meant for the user: ServiceError for API clients and OperatorError for
// the command line. Any other error is a bug and keeps its stack trace.

/** Error codes of API responses (docs/contract.md, Errors). */
export type ErrorCode =
  | 'UNAUTHORIZED'
  | 'FORBIDDEN'
  | 'NOT_FOUND'
  | 'METHOD_NOT_ALLOWED'
  | 'VALIDATION_ERROR'
  | 'CONFLICT'
  | 'RATE_LIMITED'
  | 'INTERNAL_ERROR';

/** One invalid field of an input: its path, and a message with the expected form. */
export interface Fault {
  path: string;
  message: string;
}

/** An error that the API returns to its client, with an error code. */
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

/** Creates a VALIDATION_ERROR for one field. */
export function invalidField(path: string, message: string): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `${path} ${message}.`, [{ path, message }]);
}

/**
 * Exit codes: 1 failed, 2 wrong usage, 129 interrupted by SIGHUP (a closed terminal), 130
 * interrupted by SIGINT (ctrl-C), 143 interrupted by SIGTERM.
 */
export type FailureCode = 1 | 2 | 129 | 130 | 143;

/**
 * The signals that end a process, each with the exit code of a command that the signal interrupts.
 */
export const ENDING_SIGNALS = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

export type EndingSignal = keyof typeof ENDING_SIGNALS;

/**
 * An operator's mistake or an outage. The command line prints only the message and exits with
 * `exitCode`.
 */
export class OperatorError extends Error {
  readonly exitCode: FailureCode;

  constructor(message: string, exitCode: FailureCode = 1, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OperatorError';
    this.exitCode = exitCode;
  }
}

/** Thrown when a signal interrupts a command. */
export class Interrupted extends OperatorError {
  readonly signal: EndingSignal;

  constructor(message: string, signal: EndingSignal = 'SIGINT', options: ErrorOptions = {}) {
    super(message, ENDING_SIGNALS[signal], options);
    this.signal = signal;
  }

  /**
   * Creates an Interrupted with this message. The AbortSignal must come from interruptible()
   * (daemon/run.ts), because its reason names the received signal.
   */
  static by({ reason }: AbortSignal, message: string, options: ErrorOptions = {}): Interrupted {
    return new Interrupted(
      message,
      reason instanceof Interrupted ? reason.signal : 'SIGINT',
      options,
    );
  }
}

/** Returns the message of any thrown value. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '')
    return error.errors.map(messageOf).join('; ');
  return error instanceof Error ? error.message : String(error);
}
