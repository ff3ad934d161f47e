import { BillingConnectionError, BillingError } from '../../client/error.ts';
import { counted, fill, words } from './language.ts';
import { foreign } from './text.ts';

/** Thrown when the wallet refused a request, or when the wallet's owner refused the request. */
export class WalletRefusal extends Error {
  readonly step: 'connect' | 'signIn' | 'sign';
  /** True when the wallet reports that the owner refused the request. */
  readonly byPerson: boolean;

  constructor(step: WalletRefusal['step'], cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.step = step;
    this.byPerson = isRejection(cause);
  }
}

/**
 * Thrown when the wallet changed the transaction before signing it. The service did not send the
 * transaction, and reports what the wallet changed.
 */
export class AlteredTransaction extends Error {
  /**
   * The change by the wallet, as the end of a sentence. Undefined when the service does not know
   * the change.
   */
  readonly change: string | undefined;

  constructor(cause: BillingError) {
    super('the wallet changed the transaction', { cause });
    const [detail] = cause.details;
    if (detail?.path === 'transaction') this.change = detail.message;
  }
}

function isRejection(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { code, message } = error as { code?: unknown; message?: unknown };
  return (
    code === 4001 || (typeof message === 'string' && /reject|denied|declin|cancel/i.test(message))
  );
}

/** Matches a wallet's message that says only that the user declined, without a reason. */
const USUAL = /^(the )?(user|request)\b[\w ]*\b(reject|den(y|ied)|declin|cancel)[\w ]*\.?$/i;

/** Describes an error for the user. */
export function wordsOf(error: unknown): string {
  if (error instanceof BillingError) {
    if (error.code === 'RATE_LIMITED') return counted(words.error.tooMany, error.retryAfter ?? 60);
    return reasonOf(error.reason);
  }
  if (error instanceof WalletRefusal) {
    const reason = foreign(error.message).replace(/[^.!?]$/, '$&.');
    if (!error.byPerson) return fill(words.error.walletSays, { reason });
    // A hardware wallet may decline because of its own settings. The user needs to read this
    // reason.
    return USUAL.test(reason) ? words.error.declined : fill(words.error.declinedWhy, { reason });
  }
  if (error instanceof AlteredTransaction) {
    const { change } = error;
    const how = change === undefined ? '' : ` ${fill(words.error.alteredHow, { change })}`;
    return `${words.error.altered}${how}`;
  }
  if (error instanceof BillingConnectionError) return words.error.unreachable;
  return error instanceof Error ? error.message : String(error);
}

/** Shows a reason that the service gave. Reasons of the service are in English. */
export const reasonOf = (reason: string): string => fill(words.error.service, { reason });

export function isCode(error: unknown, code: BillingError['code']): error is BillingError {
  return error instanceof BillingError && error.code === code;
}
