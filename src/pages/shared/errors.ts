import { BillingConnectionError, BillingError } from '../../client/error.ts';
import { foreign } from './text.ts';

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
 * The wallet signed a different transaction from the one that it was given. The service names the
 * change and did not send the transaction.
 */
export class AlteredTransaction extends Error {
  constructor(cause: BillingError) {
    const [change] = cause.details;
    const named = change?.path === 'transaction' ? ` The transaction ${change.message}.` : '';
    super(`Your wallet signed something else than this page asked for. Nothing was sent.${named}`, {
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

/** Messages that say no more than that the owner declined. */
const USUAL = /^(the )?(user|request)\b[\w ]*\b(reject|den(y|ied)|declin|cancel)[\w ]*\.?$/i;

/** Describes an error for the user. */
export function wordsOf(error: unknown): string {
  if (error instanceof BillingError) {
    if (error.code === 'RATE_LIMITED')
      return `Too many requests just now. Try again in ${error.retryAfter ?? 60} seconds.`;
    return error.reason;
  }
  if (error instanceof WalletRefusal) {
    const words = foreign(error.message).replace(/[^.!?]$/, '$&.');
    if (!error.byPerson) return `Your wallet says: ${words}`;
    // A device declines for reasons of its own, such as a setting, which its owner has to read.
    return USUAL.test(words) ? 'You declined in your wallet.' : `Your wallet declined: ${words}`;
  }
  if (error instanceof BillingConnectionError)
    return 'The service cannot be reached. Check your connection and try again.';
  return error instanceof Error ? error.message : String(error);
}

export function isCode(error: unknown, code: BillingError['code']): error is BillingError {
  return error instanceof BillingError && error.code === code;
}
