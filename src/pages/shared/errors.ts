import { BillingConnectionError, BillingError } from '../../client/error.ts';

/** A wallet's owner said no, or the wallet did. */
export class WalletRefusal extends Error {
  readonly step: 'connect' | 'signIn' | 'sign';
  /** Whether a person refused, as far as the wallet says. */
  readonly byPerson: boolean;

  constructor(step: WalletRefusal['step'], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.step = step;
    this.byPerson = isRejection(cause);
  }
}

/** The wallet signed something else than it was given: the service has refused to send it. */
export class AlteredTransaction extends Error {
  constructor(cause: unknown) {
    super('Your wallet signed something else than this page asked for. Nothing was sent.', {
      cause,
    });
  }
}

function isRejection(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return (
    code === 4001 || (typeof message === 'string' && /reject|denied|declin|cancel/i.test(message))
  );
}

/** An error in words for the reader. */
export function wordsOf(error: unknown): string {
  if (error instanceof BillingError) {
    if (error.code === 'RATE_LIMITED')
      return `Too many requests just now. Try again in ${error.retryAfter ?? 60} seconds.`;
    return error.reason;
  }
  if (error instanceof WalletRefusal)
    return error.byPerson ? 'You declined in your wallet.' : `Your wallet says: ${error.message}`;
  if (error instanceof BillingConnectionError)
    return 'The service cannot be reached. Check your connection and try again.';
  return error instanceof Error ? error.message : String(error);
}

export function isCode(error: unknown, code: BillingError['code']): boolean {
  return error instanceof BillingError && error.code === code;
}
