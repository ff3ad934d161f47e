import { BillingConnectionError, BillingError } from '../../client/error.ts';

/** The wallet refused a request, by itself or because its owner refused. */
export class WalletRefusal extends Error {
  readonly step: 'connect' | 'signIn' | 'sign';
  /** True when the wallet reports that its owner refused. */
  readonly byPerson: boolean;

  constructor(step: WalletRefusal['step'], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.step = step;
    this.byPerson = isRejection(cause);
  }
}

/**
 * The wallet signed a different transaction from the one that it was given. The service did not
 * send the transaction.
 */
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

/** Describes an error for the user. */
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
